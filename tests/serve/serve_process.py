"""An engine's server as a process of its own, and requests that no client library would send."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60
STOP_SECONDS = 30


@dataclass(frozen=True)
class EngineFolder:
    """An engine that was built."""

    engine: Path
    checkpoint: Path


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, which has exactly OpenAI's four fields."""
        document = self.json
        assert set(document) == {"error"}, document
        error: dict[str, Any] = document["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"]
        return error


class Server:
    """A running `enginewright-engine serve`; its log is read when it ends."""

    def __init__(
        self, program: Path, folder: EngineFolder, *flags: str, **environment: str
    ) -> None:
        command = [program, "serve", "--engine", folder.engine, "--checkpoint", folder.checkpoint]
        self.process = subprocess.Popen(
            [*map(str, command), "--port", "0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self.log = b""
        line = self._first_line()
        ready = json.loads(line)
        assert ready["event"] == "ready", line
        self.host, port = ready["address"].rsplit(":", 1)
        self.port = int(port)

    def _first_line(self) -> bytes:
        assert self.process.stdout is not None
        seen, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline() if seen else b""
        if not line.strip():
            self.process.kill()
            _, log = self.process.communicate()
            raise AssertionError(f"the server never said that it is ready:\n{log.decode()}")
        return line

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}/v1"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send one request on a connection of its own."""
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(
                method, path, content, {"Content-Type": "application/json", **(headers or {})}
            )
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, fields, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: bytes | dict[str, Any]) -> Reply:
        return self.request("POST", path, body)

    def open_stream(self, path: str, body: dict[str, Any]) -> socket.socket:
        """Send a request, read the first bytes of its answer and keep the connection."""
        content = json.dumps(body).encode()
        connection = socket.create_connection((self.host, self.port), timeout=60)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        connection.sendall(head.encode() + content)
        if body.get("stream"):
            assert connection.recv(12) == b"HTTP/1.1 200"
        return connection

    def metric(self, name: str) -> float:
        """The sum of all samples of a metric."""
        text = self.request("GET", "/metrics").body.decode()
        samples = [
            line.rsplit(" ", 1)[1]
            for line in text.splitlines()
            if line.startswith((f"{name} ", f"{name}{{"))
        ]
        assert samples, f"no metric {name} in:\n{text}"
        return sum(map(float, samples))

    def wait_until_metric(self, name: str, value: float) -> None:
        """Wait until a gauge has the value.

        Raises: AssertionError if it never does.
        """
        end = time.monotonic() + 20
        while (last := self.metric(name)) != value:
            assert time.monotonic() < end, f"{name} is {last}, never {value}"
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the server to end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        rest, log = self.process.communicate(timeout=STOP_SECONDS)
        assert rest == b"", f"more than the ready line on stdout: {rest!r}"
        self.log += log
        return self.process.returncode


def stream_events(raw: bytes) -> list[str]:
    """The data of each server-sent event."""
    blocks = raw.decode().split("\n\n")
    assert blocks[-1] == "", "the last event is cut"
    events = [block for block in blocks[:-1] if not block.startswith(":")]
    assert all(event.startswith("data: ") for event in events), events
    return [event.removeprefix("data: ") for event in events]
