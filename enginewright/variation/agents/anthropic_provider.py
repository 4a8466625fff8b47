"""Anthropic's own protocol; the SDK is an extra: `pip install 'enginewright[anthropic]'`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from enginewright.errors import UsageError
from enginewright.target import Agent
from enginewright.variation.agents.exchange import (
    Failure,
    Message,
    Reply,
    Request,
    ToolCall,
    Usage,
    most_input_tokens,
)

_MOST_DETAIL = 300


class AnthropicProvider:
    """One model of Anthropic's, or of a server that speaks its protocol."""

    def __init__(self, agent: Agent, key: str | None) -> None:
        """Raises: UsageError if the SDK is not installed."""
        try:
            import anthropic
        except ImportError as error:
            raise UsageError(
                f"agent {agent.title}: the `anthropic` package is not installed",
                hint="pip install 'enginewright[anthropic]'",
            ) from error
        assert agent.model is not None, "the target was checked. This is a bug."
        self._agent = agent
        self._model = agent.model
        self._client = anthropic.AsyncAnthropic(
            api_key=key or "none",
            base_url=agent.base_url,
            max_retries=0,
            timeout=agent.limits.request_seconds,
        )

    async def ask(self, request: Request) -> Reply | Failure:
        """One attempt, streamed."""
        import anthropic

        heard = 0
        is_begun = False
        try:
            async with (
                asyncio.timeout(self._agent.limits.request_seconds),
                self._client.messages.stream(**self._body(request)) as stream,
            ):
                async for event in stream:
                    is_begun = True
                    heard += len(getattr(event, "text", "") or getattr(event, "partial_json", ""))
                whole = await stream.get_final_message()
        except anthropic.APIStatusError as error:
            return _status_failure(error)
        except (TimeoutError, anthropic.APITimeoutError):
            return _broken(request, heard, "timed_out", "no whole answer in time")
        except (anthropic.AnthropicError, OSError, ValueError, AssertionError) as error:
            # The SDK asserts that a stream brought a message.
            kind = "broken_stream" if is_begun else "unavailable"
            return _broken(request, heard, kind, _line(error))
        if whole.stop_reason is None:
            detail = "the stream ended in the middle of an answer"
            return _broken(request, heard, "broken_stream", detail)
        return _reply(whole)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        system = "\n\n".join(held.text for held in request.messages if held.role == "system")
        body: dict[str, Any] = {
            "model": self._model,
            "system": system,
            "messages": _messages(request.messages),
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in request.tools
            ],
            "max_tokens": request.answer_tokens,
        }
        if self._agent.temperature is not None:
            body["temperature"] = self._agent.temperature
        return body


def _reply(whole: Any) -> Reply:
    usage = whole.usage
    cached = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    calls = tuple(
        ToolCall(id=block.id, name=block.name, arguments=json.dumps(block.input))
        for block in whole.content
        if block.type == "tool_use"
    )
    finish: Any = {"max_tokens": "length", "refusal": "refusal", "tool_use": "tools"}.get(
        whole.stop_reason, "stop"
    )
    return Reply(
        text="".join(block.text for block in whole.content if block.type == "text"),
        calls=() if finish == "refusal" else calls,
        finish=finish,
        usage=Usage(
            input_tokens=usage.input_tokens + cached + written,
            cached_tokens=cached,
            output_tokens=usage.output_tokens,
            is_estimated=False,
        ),
    )


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Results of tools are parts of what the user says; neighbours of one role are one message."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        parts: list[dict[str, Any]] = []
        if message.role == "tool":
            parts.append(
                {"type": "tool_result", "tool_use_id": message.call, "content": message.text}
            )
        elif message.text:
            parts.append({"type": "text", "text": message.text})
        parts += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
            for call in message.calls
        ]
        if found and found[-1]["role"] == role:
            found[-1]["content"] += parts
        elif parts:
            found.append({"role": role, "content": parts})
    return found


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        held = json.loads(call.arguments)
    except ValueError:
        return {"unreadable": call.arguments}
    return held if isinstance(held, dict) else {"unreadable": call.arguments}


def _broken(request: Request, heard: int, kind: Any, detail: str) -> Failure:
    usage = None
    if kind != "unavailable":
        # What was begun may be billed.
        usage = Usage(
            input_tokens=most_input_tokens(request.messages, request.tools),
            cached_tokens=0,
            output_tokens=min(4 * heard, request.answer_tokens),
            is_estimated=True,
        )
    return Failure(kind=kind, detail=detail, usage=usage)


def _status_failure(error: Any) -> Failure:
    status = error.status_code
    detail = f"{status}: {_line(error)}"
    text = error.response.headers.get("retry-after")
    try:
        wait = None if text is None else max(0.0, float(text))
    except ValueError:
        wait = None
    if status == 429:
        return Failure(kind="rate_limited", detail=detail, wait_seconds=wait)
    if status == 408 or status >= 500:
        return Failure(kind="unavailable", detail=detail, wait_seconds=wait)
    return Failure(kind="refused", detail=detail)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:_MOST_DETAIL] or type(error).__name__
