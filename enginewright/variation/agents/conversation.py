"""One conversation of a coder: ask, carry out the tools it uses, until it hands something in."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from enginewright.target import AgentLimits
from enginewright.variation.agents.exchange import (
    Failure,
    Message,
    Provider,
    Reply,
    Request,
    ToolCall,
    Usage,
    most_input_tokens,
)
from enginewright.variation.agents.patience import Pace, Patience, ask_patiently
from enginewright.variation.agents.redaction import Redactor
from enginewright.variation.agents.spending import Purse, Reserved, Spent
from enginewright.variation.agents.tools import CODER_TOOLS, Desk, ToolResult

MOST_CALLS = 16
"""Tools that one answer may use; those beyond are refused."""
MOST_RESULT = 24_000
"""Characters of one result that the model gets to read."""
MOST_USELESS = 4
"""So many answers in a row without a tool that could be carried out end the conversation."""
_TOLD_TO_GO_ON = "Use a tool; end with submit or give_up."

EndKind = Literal["handed_in", "refused", "useless", "turns", "budget", "provider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a conversation ended."""

    kind: EndKind
    """`handed_in`: submitted or given up; `refused`: the model declined; `useless`: no sense came;
    `turns`, `budget`: a limit; `provider`: no answer could be had."""
    detail: str
    """One line for people."""
    turns: int
    """Requests that were answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Where a conversation's requests are written down."""

    asking: Callable[[Request, Reserved], None]
    """Before an attempt is sent: so much is set aside."""
    asked: Callable[[Request, Reply | Failure, Spent], None]
    """After it ended: what came and what it cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coder:
    """All that an agent's conversations share."""

    provider: Provider
    """Who answers."""
    limits: AgentLimits
    """Of the target."""
    purse: Purse
    """What may be spent."""
    pace: Pace
    """How often it may be asked."""
    patience: Patience
    """How often an attempt is repeated."""
    redactor: Redactor
    """Cleans everything that is said, either way."""
    one_at_a_time: asyncio.Lock
    """Held while a tool works: compilers and timings must not disturb each other."""

    async def converse(
        self, number: int, opening: tuple[Message, ...], desk: Desk, books: Books
    ) -> Ended:
        """Conversation `number`, from its opening to its end."""
        messages = tuple(replace(held, text=self.redactor.clean(held.text)) for held in opening)
        useless = 0
        known: tuple[int, int] | None = None
        for turn in range(self.limits.turns):
            outcome = await self._ask(number, turn, messages, known, books)
            if isinstance(outcome, Failure):
                kind: EndKind = "budget" if outcome.kind == "unaffordable" else "provider"
                return Ended(kind=kind, detail=outcome.detail, turns=turn)
            if not outcome.usage.is_estimated:
                known = (len(messages), outcome.usage.input_tokens)
            if outcome.finish == "refusal":
                return Ended(kind="refused", detail=_line(outcome.text), turns=turn + 1)
            said = Message(role="assistant", text=outcome.text, calls=outcome.calls)
            results = [await self._use(desk, outcome, at) for at in range(len(outcome.calls))]
            answers = [
                Message(role="tool", text=self._readable(result), call=call.id)
                for call, result in zip(outcome.calls, results, strict=True)
            ]
            last = next((result for result in results if result.ends), None)
            if last is not None:
                return Ended(kind="handed_in", detail=_line(last.text), turns=turn + 1)
            is_of_use = any(not result.is_error for result in results)
            useless = 0 if is_of_use else useless + 1
            if useless >= MOST_USELESS:
                detail = f"{useless} answers in a row without a tool that could be carried out"
                return Ended(kind="useless", detail=detail, turns=turn + 1)
            if not answers:
                answers = [Message(role="user", text=_TOLD_TO_GO_ON)]
            messages = (*messages, said, *answers)
        detail = f"{self.limits.turns} requests without a submission"
        return Ended(kind="turns", detail=detail, turns=self.limits.turns)

    async def _ask(
        self,
        number: int,
        turn: int,
        messages: tuple[Message, ...],
        known: tuple[int, int] | None,
        books: Books,
    ) -> Reply | Failure:
        most_input = _most_input(messages, known)
        held: list[Reserved] = []

        request = Request(
            conversation=number,
            turn=turn,
            messages=messages,
            tools=CODER_TOOLS,
            answer_tokens=self.limits.answer_tokens,
        )
        reserved = self.purse.reserve(most_input)
        if reserved is None:
            return Failure(kind="unaffordable", detail=self.purse.why_empty())
        held.append(reserved)
        request = replace(request, answer_tokens=reserved.answer_tokens)

        def may_send() -> bool:
            if not held:
                again = self.purse.reserve(most_input)
                # The request is written already: an answer of its size must be affordable.
                if again is None or again.answer_tokens < request.answer_tokens:
                    if again is not None:
                        self.purse.settle(again, None)
                    return False
                held.append(again)
            books.asking(request, held[0])
            return True

        def attempted(asked: Request, outcome: Reply | Failure) -> None:
            cost = self.purse.settle(held.pop(), outcome.usage)
            books.asked(asked, self._cleaned(outcome), cost)

        try:
            outcome = await ask_patiently(
                self.provider,
                request,
                patience=self.patience,
                pace=self.pace,
                chance=random.Random(1000 * number + turn),
                may_send=may_send,
                attempted=attempted,
            )
        finally:
            for left in held:
                self.purse.settle(left, Usage(
                    input_tokens=left.input_tokens, cached_tokens=0,
                    output_tokens=left.answer_tokens, is_estimated=True,
                ))  # fmt: skip
        return self._cleaned(outcome)

    async def _use(self, desk: Desk, reply: Reply, at: int) -> ToolResult:
        call = reply.calls[at]
        if at >= MOST_CALLS:
            return ToolResult(text=f"at most {MOST_CALLS} tools an answer", is_error=True)
        arguments = _arguments(call)
        if isinstance(arguments, str):
            if reply.finish == "length":
                arguments = f"{arguments}; the answer was cut: write less at once"
            return ToolResult(text=arguments, is_error=True)
        async with self.one_at_a_time:
            return await asyncio.to_thread(desk.use, call.name, arguments)

    def _readable(self, result: ToolResult) -> str:
        text = self.redactor.clean(result.text)
        if len(text) > MOST_RESULT:
            left_out = len(text) - MOST_RESULT
            text = f"{text[:MOST_RESULT]}\n… {left_out:,} more characters are left out"
        return f"error: {text}" if result.is_error else text

    def _cleaned(self, outcome: Reply | Failure) -> Reply | Failure:
        """Executed is what is recorded: secrets are gone from both."""
        clean = self.redactor.clean
        if isinstance(outcome, Failure):
            return replace(outcome, detail=clean(outcome.detail))
        calls = tuple(replace(call, arguments=clean(call.arguments)) for call in outcome.calls)
        return replace(outcome, text=clean(outcome.text), calls=calls)


def _most_input(messages: tuple[Message, ...], known: tuple[int, int] | None) -> int:
    """Bound on a request's tokens: what the server counted of the messages that it has seen, and
    the bytes of those since."""
    bound = most_input_tokens(messages, CODER_TOOLS)
    if known is None:
        return bound
    seen, tokens = known
    return min(bound, tokens + most_input_tokens(messages[seen:], ()))


def _arguments(call: ToolCall) -> dict[str, Any] | str:
    """The arguments, or what is wrong with them."""
    try:
        held = json.loads(call.arguments or "{}")
    except ValueError as error:
        return f"the arguments of {call.name} are not JSON: {error}"
    return held if isinstance(held, dict) else f"the arguments of {call.name} are no object"


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
