"""Every exchange with a language model is kept, and can be given again in place of the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from enginewright.errors import UsageError
from enginewright.variation.agents.exchange import (
    Failure,
    Message,
    Reply,
    Request,
    ToolCall,
    Usage,
)
from enginewright.variation.agents.redaction import Redactor

FORMAT = "enginewright.exchange/1"

Exchange = dict[str, Any]
"""One attempt as JSON: `format`, `agent`, `conversation`, `turn`, `attempt`, `prompt`, `tools`
(versions), `model`, `said` (messages since the last attempt that was answered), `answer_tokens`,
and `reply` or `failure`."""


def exchange_json(
    request: Request,
    outcome: Reply | Failure,
    *,
    agent: str,
    attempt: int,
    model: str,
    versions: Mapping[str, str],
    redactor: Redactor,
) -> Exchange:
    """One attempt, without secrets. Only what is new since the model spoke last is written: the
    rest stands in the exchanges before."""
    spoken = [at for at, held in enumerate(request.messages) if held.role == "assistant"]
    fresh = request.messages[spoken[-1] + 1 if spoken else 0 :]
    held = {
        "format": FORMAT,
        "agent": agent,
        "conversation": request.conversation,
        "turn": request.turn,
        "attempt": attempt,
        **versions,
        "model": model,
        "said": [_message_json(message) for message in fresh],
        "answer_tokens": request.answer_tokens,
        "reply" if isinstance(outcome, Reply) else "failure": asdict(outcome),
    }
    cleaned = _cleaned(held, redactor)
    assert isinstance(cleaned, dict), "an object stays one. This is a bug."
    return cleaned


def reply_of(exchange: Exchange) -> Reply | None:
    """The answer in an exchange; None if there was none."""
    held = exchange.get("reply")
    if held is None:
        return None
    return Reply(
        text=held["text"],
        calls=tuple(ToolCall(**call) for call in held["calls"]),
        finish=held["finish"],
        usage=Usage(**held["usage"]),
    )


class Recorded:
    """A provider that answers what was answered before: by conversation and turn, without
    network."""

    def __init__(self, exchanges: Iterable[Exchange], *, source: str) -> None:
        """`source` names the recording for people.

        Raises: UsageError if an exchange is of another format.
        """
        self.source = source
        self._replies: dict[tuple[int, int], Reply] = {}
        self.prompts: set[str] = set()
        for held in exchanges:
            if held.get("format") != FORMAT:
                raise UsageError(
                    f"{source}: an exchange of format {held.get('format')!r}; expected {FORMAT}",
                    hint="a recording has an exchange on each line",
                )
            self.prompts.add(held["prompt"])
            reply = reply_of(held)
            if reply is not None:
                self._replies[held["conversation"], held["turn"]] = reply

    @property
    def conversations(self) -> int:
        """How many conversations it holds."""
        return 1 + max((number for number, _ in self._replies), default=-1)

    async def ask(self, request: Request) -> Reply | Failure:
        """The recorded answer."""
        held = self._replies.get((request.conversation, request.turn))
        if held is not None:
            return held
        return Failure(
            kind="recording_ended",
            detail=f"{self.source} has no answer {request.turn} of conversation "
            f"{request.conversation}",
        )

    async def close(self) -> None:
        """Nothing is open."""


def read_exchanges(text: str, *, source: str, agent: str | None = None) -> list[Exchange]:
    """Exchanges of a file with one on each line; of `agent` alone, if given and present.

    Raises: UsageError naming the line.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            held = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{source}:{number}: not JSON: {error}") from error
        if not isinstance(held, dict):
            raise UsageError(f"{source}:{number}: expected an object")
        found.append(held)
    mine = [held for held in found if held.get("agent") == agent]
    return mine or found


def _message_json(message: Message) -> dict[str, Any]:
    held: dict[str, Any] = {"role": message.role, "text": message.text}
    if message.call is not None:
        held["call"] = message.call
    return held


def _cleaned(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(item, redactor) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, redactor) for item in value]
    return value
