"""What is said to a language model and what it answers, whoever the provider is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One use of a tool, as the model wrote it."""

    id: str
    """The model's name for the call."""
    name: str
    """The tool."""
    arguments: str
    """What should be a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One part of a conversation."""

    role: Role
    """Who speaks."""
    text: str
    """What is said; the result of a tool."""
    calls: tuple[ToolCall, ...] = ()
    """Tools that the model uses (role `assistant`)."""
    call: str | None = None
    """Id of the call that this answers (role `tool`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a model may use."""

    name: str
    """Unique; `snake_case`."""
    description: str
    """What it does, for the model."""
    parameters: dict[str, Any]
    """JSON schema of its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question."""

    conversation: int
    """Number of the conversation of its agent, from 0."""
    turn: int
    """Number of the request in its conversation, from 0."""
    messages: tuple[Message, ...]
    """All that was said, the system's part first."""
    tools: tuple[Tool, ...]
    """What the model may use."""
    answer_tokens: int
    """Most tokens of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request."""

    input_tokens: int
    """Read, those from a cache included."""
    cached_tokens: int
    """Read from the server's cache."""
    output_tokens: int
    """Written."""
    is_estimated: bool
    """Whether the server did not say, and these are upper bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer."""

    text: str
    """What it says."""
    calls: tuple[ToolCall, ...]
    """Tools that it uses."""
    finish: Literal["stop", "tools", "length", "refusal"]
    """Why it ended. `length`: it was cut; `refusal`: the model or the server declined."""
    usage: Usage
    """What it cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """No whole answer."""

    kind: Literal[
        "rate_limited",
        "unavailable",
        "broken_stream",
        "timed_out",
        "refused",
        "unaffordable",
        "recording_ended",
    ]
    """`refused`: the server will not take the request, now or later (key, model, size).
    `unaffordable`: it was not sent, since it could cost more than what may be spent."""
    detail: str
    """One line, without secrets."""
    wait_seconds: float | None = None
    """How long the server asks to wait."""
    usage: Usage | None = None
    """What it may have cost all the same; None if nothing was begun."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in ("rate_limited", "unavailable", "broken_stream", "timed_out")


class Provider(Protocol):
    """A server of language models. A failure is a value; nothing is raised for it."""

    async def ask(self, request: Request) -> Reply | Failure:
        """One attempt."""

    async def close(self) -> None:
        """Release connections."""


def most_input_tokens(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> int:
    """A bound on the tokens of a request: no tokenizer makes more of a text than it has bytes."""
    framing = 24
    texts = [part for message in messages for part in _texts(message)]
    texts += [f"{tool.name}{tool.description}{tool.parameters}" for tool in tools]
    return sum(len(text.encode()) + framing for text in texts)


def _texts(message: Message) -> list[str]:
    return [message.text, *(f"{call.id}{call.name}{call.arguments}" for call in message.calls)]
