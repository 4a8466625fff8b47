"""An engine folder served by the host program, in a fresh process."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from enginewright.evaluation.running_server import RunningServer, spawn_server, wait_until

_POLL_SECONDS = 0.001
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "RUST_BACKTRACE", "TMPDIR")
"""All that an engine sees of the environment: it has no business with anybody's keys."""


ENGINE_FIELDS = {"return_token_ids": True, "ignore_eos": True}
"""What completions ask of our own engines beyond OpenAI's fields; see docs/architecture.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineArm:
    """An engine that can be started as often as needed."""

    name: str
    """What messages and evidence call it."""
    fingerprint: str
    """Of what runs: two arms with the same one are the same engine."""
    command: tuple[str, ...]
    """Starts the server; see `serve_command`."""
    timeout_seconds: float = 60.0
    """How long it may take to be ready."""

    speaks_token_ids = True
    """Engines answer with token ids; see docs/architecture.md."""

    def start(self, log: Path) -> RunningServer:
        """A fresh, ready process whose standard error goes to `log`.

        Raises: ServerFailed (`not_started`) with the end of the log.
        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        started = time.monotonic()
        server, output = spawn_server(
            self.command, name=self.name, log=log, environment=environment
        )
        try:
            address = _wait_for_address(server, output, started + self.timeout_seconds)
        except BaseException:
            server.stop()
            raise
        server.start_seconds = time.monotonic() - started
        server.base_url = f"http://{address}"
        server.fields = dict(ENGINE_FIELDS)
        return server


def serve_command(
    program: Path, engine: Path, checkpoint: Path | None, *, threads: int | None = None
) -> tuple[str, ...]:
    """The host program's `serve` on any free port of this machine. `checkpoint` is the folder of
    the weights; None if they lie in the engine's folder."""
    command = [str(program), "serve", "--engine", str(engine), "--port", "0"]
    if checkpoint is not None:
        command += ["--checkpoint", str(checkpoint)]
    if threads is not None:
        command += ["--threads", str(threads)]
    return tuple(command)


def _wait_for_address(server: RunningServer, output: Path, deadline: float) -> str:
    while True:
        is_alive = server.is_alive
        for line in output.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            if line.endswith("\n"):
                address = _address_in(line)
                if address is not None:
                    return address
        if not is_alive:
            raise server.failure("not_started", "ended before it was ready")
        if not wait_until(deadline, _POLL_SECONDS):
            raise server.failure("not_started", "was not ready in time")


def _address_in(line: str) -> str | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if isinstance(event, dict) and event.get("event") == "ready":
        address = event.get("address")
        return address if isinstance(address, str) else None
    return None
