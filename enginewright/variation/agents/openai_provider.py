"""Servers that speak OpenAI's chat route: OpenAI itself, llama.cpp, vLLM, our own engine…

The SDK is given its aiohttp transport, which costs least of those measured, and no retries: every
attempt must be paid for, so our own layer decides about it.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from enginewright.target import Agent
from enginewright.variation.agents.exchange import (
    Failure,
    Message,
    Reply,
    Request,
    Tool,
    ToolCall,
    Usage,
    most_input_tokens,
)

if TYPE_CHECKING:
    import httpx2
    import openai

CONNECT_SECONDS = 30.0
"""How long a connection may take."""
IDLE_SECONDS = 120.0
"""How long a stream may be silent: a connection that died on the way says nothing."""
_MOST_DETAIL = 300


@dataclass
class _Heard:
    """What a stream brought so far."""

    text: str = ""
    refusal: str = ""
    finish: str | None = None
    usage: Usage | None = None
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    def size(self) -> int:
        """Bytes: an upper bound on tokens."""
        texts = [self.text, self.refusal, *("".join(call.values()) for call in self.calls.values())]
        return sum(len(text.encode()) for text in texts)


class OpenAIProvider:
    """One server and model."""

    def __init__(
        self, agent: Agent, key: str | None, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        """`key` is the secret, or None for a server that wants none."""
        import httpx2
        import openai

        assert agent.model is not None, "the target was checked. This is a bug."
        self._agent = agent
        self._model = agent.model
        timeout = httpx2.Timeout(
            connect=CONNECT_SECONDS, read=idle_seconds, write=CONNECT_SECONDS, pool=None
        )
        self._client = openai.AsyncOpenAI(
            # The SDK wants one; servers that ask for none ignore it.
            api_key=key or "none",
            base_url=agent.base_url,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAioHttpClient(timeout=timeout),
        )

    async def ask(self, request: Request) -> Reply | Failure:
        """One attempt, streamed."""
        import httpx2
        import openai

        heard = _Heard()
        try:
            async with asyncio.timeout(self._agent.limits.request_seconds):
                stream = await self._client.chat.completions.create(**self._body(request))
                async with stream:
                    async for chunk in stream:
                        _hear(heard, chunk)
        except openai.APIStatusError as error:
            return _status_failure(error)
        except TimeoutError:
            return _broken(request, heard, "timed_out", "no whole answer in time")
        except (openai.APIError, httpx2.HTTPError, ValueError) as error:
            if _never_connected(error):
                return Failure(kind="unavailable", detail=_line(error.__cause__ or error))
            is_late = isinstance(error, openai.APITimeoutError | httpx2.ReadTimeout)
            return _broken(
                request, heard, "timed_out" if is_late else "broken_stream", _line(error)
            )
        if heard.finish is None and not heard.refusal:
            detail = "the stream ended in the middle of an answer"
            return _broken(request, heard, "broken_stream", detail)
        return _reply(request, heard)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        # Newer models of OpenAI's refuse `max_tokens`; most other servers know nothing else.
        most = "max_completion_tokens" if self._agent.base_url is None else "max_tokens"
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_message(message) for message in request.messages],
            "tools": [_tool(tool) for tool in request.tools],
            "stream": True,
            "stream_options": {"include_usage": True},
            most: request.answer_tokens,
        }
        for name in ("temperature", "seed"):
            value = getattr(self._agent, name)
            if value is not None:
                body[name] = value
        return body


def _broken(
    request: Request, heard: _Heard, kind: Literal["timed_out", "broken_stream"], detail: str
) -> Failure:
    # What was sent may be billed, whether an answer came or not.
    return Failure(kind=kind, detail=detail, usage=heard.usage or _bound(request, heard))


def _never_connected(error: BaseException | None) -> bool:
    """Whether the server was not reached at all. The transport calls this a timeout."""
    import aiohttp

    while error is not None:
        if isinstance(error, aiohttp.ClientConnectorError):
            return True
        error = error.__cause__
    return False


def _hear(heard: _Heard, chunk: Any) -> None:
    if chunk.usage is not None:
        details = chunk.usage.prompt_tokens_details
        heard.usage = Usage(
            input_tokens=chunk.usage.prompt_tokens,
            cached_tokens=(details.cached_tokens or 0) if details is not None else 0,
            output_tokens=chunk.usage.completion_tokens,
            is_estimated=False,
        )
    for choice in chunk.choices[:1]:
        delta = choice.delta
        heard.text += delta.content or ""
        heard.refusal += getattr(delta, "refusal", None) or ""
        for part in delta.tool_calls or ():
            held = heard.calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            held["id"] = part.id or held["id"]
            if part.function is not None:
                held["name"] += part.function.name or ""
                held["arguments"] += part.function.arguments or ""
        heard.finish = choice.finish_reason or heard.finish


def _reply(request: Request, heard: _Heard) -> Reply:
    calls = tuple(
        ToolCall(
            id=held["id"] or f"call_{request.turn}_{index}",
            name=held["name"],
            arguments=held["arguments"],
        )
        for index, held in sorted(heard.calls.items())
    )
    usage = heard.usage or _bound(request, heard)
    if heard.refusal or heard.finish == "content_filter":
        text = heard.refusal or heard.text or "the server's filter stopped the answer"
        return Reply(text=text, calls=(), finish="refusal", usage=usage)
    finish = "length" if heard.finish == "length" else "tools" if calls else "stop"
    return Reply(text=heard.text, calls=calls, finish=finish, usage=usage)  # type: ignore[arg-type]


def _bound(request: Request, heard: _Heard) -> Usage:
    return Usage(
        input_tokens=most_input_tokens(request.messages, request.tools),
        cached_tokens=0,
        output_tokens=min(heard.size(), request.answer_tokens),
        is_estimated=True,
    )


def _status_failure(error: openai.APIStatusError) -> Failure:
    status = error.status_code
    detail = f"{status}: {_line(error)}"
    if status == 429 and error.code != "insufficient_quota":
        return Failure(
            kind="rate_limited", detail=detail, wait_seconds=_retry_after(error.response)
        )
    if status in (408, 409, 425) or status >= 500:
        return Failure(kind="unavailable", detail=detail, wait_seconds=_retry_after(error.response))
    return Failure(kind="refused", detail=detail)


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds that the server asks to wait: `Retry-After` as a number or a date."""
    text = response.headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        moment = email.utils.parsedate_tz(text)
    if moment is None:
        return None
    return max(0.0, email.utils.mktime_tz(moment) - time.time())


def _line(error: BaseException) -> str:
    lines = str(error).split()
    return " ".join(lines)[:_MOST_DETAIL] or type(error).__name__


def _message(message: Message) -> dict[str, Any]:
    held: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        held["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.call is not None:
        held["tool_call_id"] = message.call
    return held


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
