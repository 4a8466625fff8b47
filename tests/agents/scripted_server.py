"""A server that speaks OpenAI's chat route and answers as scripted, on a loopback port.

A step of the script is a function that gets the request (parsed) and the handler, or one of the
makers below. Steps are taken in order; the last one is repeated.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[[dict[str, Any], "Handler"], None]


def call(name: str, arguments: Any, *, at: int = 0) -> dict[str, Any]:
    """One use of a tool; `arguments` as JSON, or a text sent as it is."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{at}", "name": name, "arguments": text}


def says(text: str = "", *calls: dict[str, Any], usage: tuple[int, int] | None = (100, 20)) -> Step:
    """An answer, streamed in small pieces; `usage`: tokens read and written, None tells none."""

    def step(request: dict[str, Any], handler: Handler) -> None:
        handler.begin_stream()
        for start in range(0, len(text), 7):
            handler.chunk({"content": text[start : start + 7]})
        for index, held in enumerate(calls):
            first = {"index": index, "id": held["id"], "type": "function"}
            handler.chunk(
                {"tool_calls": [first | {"function": {"name": held["name"], "arguments": ""}}]}
            )
            written = held["arguments"]
            for start in range(0, len(written), 50):
                part = {"arguments": written[start : start + 50]}
                handler.chunk({"tool_calls": [{"index": index, "function": part}]})
        handler.chunk({}, finish="tool_calls" if calls else "stop")
        if usage is not None:
            handler.usage(*usage)
        handler.end_stream()

    return step


def uses(*calls: tuple[str, Any], usage: tuple[int, int] | None = (100, 20)) -> Step:
    """An answer that uses tools."""
    made = [call(name, arguments, at=at) for at, (name, arguments) in enumerate(calls)]
    return says("", *made, usage=usage)


def refuses(text: str) -> Step:
    """The model declines."""

    def step(request: dict[str, Any], handler: Handler) -> None:
        handler.begin_stream()
        handler.chunk({"refusal": text})
        handler.chunk({}, finish="stop")
        handler.usage(50, 5)
        handler.end_stream()

    return step


def fails(status: int, message: str = "no", **headers: str) -> Step:
    """A status and headers (`retry_after` becomes `retry-after`)."""

    def step(request: dict[str, Any], handler: Handler) -> None:
        body = json.dumps({"error": {"message": message, "code": None}}).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return step


def breaks_off(text: str) -> Step:
    """The connection closes in the middle of an answer."""

    def step(request: dict[str, Any], handler: Handler) -> None:
        handler.begin_stream()
        handler.chunk({"content": text})
        handler.close_connection = True
        handler.connection.close()

    return step


def ends_early(text: str) -> Step:
    """The stream ends properly, but before the answer does."""

    def step(request: dict[str, Any], handler: Handler) -> None:
        handler.begin_stream()
        handler.chunk({"content": text})
        handler.end_stream()

    return step


def falls_silent(text: str, seconds: float) -> Step:
    """Half an answer, then nothing: the connection stays open."""

    def step(request: dict[str, Any], handler: Handler) -> None:
        handler.begin_stream()
        handler.chunk({"content": text})
        time.sleep(seconds)
        handler.close_connection = True

    return step


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take the next step."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        script: ScriptedServer = self.server.scripted
        script.take(body, {name.lower(): text for name, text in self.headers.items()})(body, self)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, delta: dict[str, Any], *, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self._event({"choices": [choice]})

    def usage(self, read: int, written: int) -> None:
        told = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }
        self._event({"choices": [], "usage": told})

    def end_stream(self) -> None:
        self._send(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, held: dict[str, Any]) -> None:
        whole = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", **held}
        self._send(f"data: {json.dumps(whole)}\n\n".encode())

    def _send(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Silent."""


class ScriptedServer:
    """Its `script` may be replaced at any time; `requests` and `headers` are what came in."""

    def __init__(self) -> None:
        self.script: list[Step] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()
        self._taken = 0

    def take(self, request: dict[str, Any], headers: dict[str, str]) -> Step:
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            step = self.script[min(self._taken, len(self.script) - 1)]
            self._taken += 1
            return step

    def plays(self, *steps: Step) -> None:
        """A new script, from its beginning."""
        with self._lock:
            self.script, self._taken = list(steps), 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def results(self, number: int = -1) -> list[str]:
        """What the tools gave, as the model was told in a request."""
        return [held["content"] for held in self.requests[number]["messages"]
                if held["role"] == "tool"]  # fmt: skip

    def __enter__(self) -> ScriptedServer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.scripted = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
