"""Other servers behind the same load generator: a URL, or a command that starts one."""

from __future__ import annotations

import os
import shlex
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from enginewright.errors import EngineError, TargetError
from enginewright.evaluation.running_server import (
    FailureReason,
    Memory,
    RunningServer,
    Server,
    ServerFailed,
    Stopped,
    spawn_server,
    wait_until,
)
from enginewright.evaluation.wire import call, first_model
from enginewright.target import Baseline

_POLL_SECONDS = 0.05
_FULL_LENGTH = {"ignore_eos": True}
"""Asks for all tokens whatever they are; llama.cpp, vLLM and others know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerArm:
    """A baseline of a target, to be measured as engines are."""

    baseline: Baseline
    """As the target names it."""
    checkpoint: Path
    """Weights that a command may name as `{checkpoint}`: a file, or a folder."""
    threads: int
    """Threads that a command may name as `{threads}`."""
    is_encoder: bool
    """Whether it is asked for embeddings."""

    speaks_token_ids = False
    """It speaks plain OpenAI."""
    engine = None
    """It is not ours, and tells nothing of what it runs."""

    @property
    def name(self) -> str:
        """The baseline's."""
        return self.baseline.name

    @property
    def fingerprint(self) -> str:
        """What is known of what runs: its address or its command."""
        return self.baseline.url or shlex.join(self._command(port=0))

    def start(self, log: Path) -> Server:
        """A ready server: the one at the URL, or a fresh process.

        Raises: ServerFailed (`not_started`) if it does not answer in time.
        """
        deadline = time.monotonic() + self.baseline.start_seconds
        if self.baseline.url is not None:
            remote = RemoteServer(name=self.name, base_url=_without_v1(self.baseline.url))
            return self._ready(remote, deadline)
        port = free_port()
        started = time.monotonic()
        server, _ = spawn_server(
            self._command(port), name=self.name, log=log, environment=dict(os.environ)
        )
        server.base_url = f"http://127.0.0.1:{port}"
        try:
            self._ready(server, deadline)
        except BaseException:
            server.stop()
            raise
        server.start_seconds = time.monotonic() - started
        return server

    def _command(self, port: int) -> list[str]:
        """Raises: TargetError for a place-holder that is not known."""
        values = {
            "port": str(port), "checkpoint": str(self.checkpoint), "threads": str(self.threads)
        }  # fmt: skip
        try:
            return [part.format_map(values) for part in self.baseline.command or ()]
        except (KeyError, ValueError, IndexError) as error:
            raise TargetError(
                f"baseline `{self.name}`: place-holder {error} in its command is not known",
                hint="known: {port}, {checkpoint}, {threads}; write {{ for a brace",
            ) from error

    def _ready(self, server: RunningServer | RemoteServer, deadline: float) -> Server:
        """Wait until it lists a model, and learn which fields it takes."""
        while True:
            try:
                listed = first_model(server.base_url, timeout_seconds=5.0)
                break
            except EngineError as error:
                if not server.is_alive:
                    raise server.failure("not_started", "ended before it was ready") from error
                if not wait_until(deadline, _POLL_SECONDS):
                    raise server.failure(
                        "not_started", f"was not ready in time: {error.message}"
                    ) from error
        server.model = self.baseline.model or listed
        if not self.is_encoder:
            server.fields = _accepted_fields(server)
        return server


def _accepted_fields(server: RunningServer | RemoteServer) -> dict[str, Any]:
    body = {"model": server.model, "prompt": "Once", "max_tokens": 1, "temperature": 0}
    try:
        call(server.base_url, "/v1/completions", {**body, **_FULL_LENGTH}, timeout_seconds=60.0)
    except EngineError:
        # Strict servers refuse what they do not know; that is all that was asked.
        return {}
    return dict(_FULL_LENGTH)


class RemoteServer:
    """A server that somebody else started: nothing of it is known but its answers."""

    def __init__(self, *, name: str, base_url: str) -> None:
        self.name = name
        self.base_url = base_url
        self.start_seconds: float | None = None
        self.model: str | None = None
        self.api_key: str | None = None
        self.fields: dict[str, Any] = {}

    @property
    def is_alive(self) -> bool:
        """Taken for granted: its answers tell."""
        return True

    def ends_within(self, seconds: float) -> bool:
        """It is not seen to end."""
        return False

    def memory(self) -> Memory | None:
        """Unknown."""
        return None

    def cpu_seconds(self) -> float | None:
        """Unknown."""
        return None

    def failure(self, reason: FailureReason, what: str) -> ServerFailed:
        """An error about it."""
        return ServerFailed(
            reason,
            f"{self.name} at {self.base_url} {what}",
            hint="start the server, or correct the baseline's url in the target",
        )

    def stop(self) -> Stopped | None:
        """It is not ours to stop."""
        return None


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _without_v1(url: str) -> str:
    path = urlsplit(url).path.rstrip("/")
    return url.rstrip("/").removesuffix("/v1") if path.endswith("/v1") else url.rstrip("/")
