"""An engine folder served by the host program, in a fresh process."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.evaluation.running_server import RunningServer, spawn_server, wait_until
from enginewright.evaluation.sandbox import Policy, Sandbox

_POLL_SECONDS = 0.001
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "RUST_BACKTRACE", "TMPDIR")
"""All that an engine sees of the environment: it has no business with anybody's keys."""


_MEMORY_SHARE = 0.75
"""Share of the machine's memory that an engine may use at most."""
_BACKLOG = 256

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
    """Starts the server; see `serve_command`. Where to listen is added to it."""
    engine: Path | None = None
    """Its folder: the engine must tell that it runs the plan in it; None asks nothing."""
    reads: tuple[Path, ...] = ()
    """Files and folders that it may read in the sandbox."""
    sandbox: Sandbox | None = None
    """What it runs in; None trusts it."""
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
        # Opened before the candidate's code runs: it can answer here and open nothing itself.
        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
            listen = ("--listen-fd", str(listener.fileno()))
            command: tuple[str, ...] = (*self.command, *listen)
            launchers = 0
            if self.sandbox is not None:
                policy = Policy(
                    read_only=(Path(self.command[0]), *self.reads),
                    environment=environment,
                    keep_fds=(listener.fileno(),),
                    memory_bytes=int(_MEMORY_SHARE * _memory_bytes()),
                )
                command = self.sandbox.command(policy, command)
                launchers = 2 if self.sandbox.level == "strong" else 1
            server, output = spawn_server(
                command,
                name=self.name,
                log=log,
                environment=environment,
                pass_fds=(listener.fileno(),),
                launchers=launchers,
            )
            address = "{}:{}".format(*listener.getsockname())
        try:
            _wait_until_ready(server, output, started + self.timeout_seconds)
        except BaseException:
            server.stop()
            raise
        server.start_seconds = time.monotonic() - started
        server.base_url = f"http://{address}"
        server.fields = dict(ENGINE_FIELDS)
        return server


def sandbox_json(arm: object) -> dict[str, Any] | None:
    """What evidence says of the arm's sandbox; None for an arm that is trusted, or not ours."""
    if isinstance(arm, EngineArm) and arm.sandbox is not None:
        return arm.sandbox.report()
    return None


def serve_command(
    program: Path, engine: Path, checkpoint: Path | None, *, threads: int | None = None
) -> tuple[str, ...]:
    """The host program's `serve`. `checkpoint` is the folder of the weights; None if they lie in
    the engine's folder."""
    command = [str(program), "serve", "--engine", str(engine)]
    if checkpoint is not None:
        command += ["--checkpoint", str(checkpoint)]
    if threads is not None:
        command += ["--threads", str(threads)]
    return tuple(command)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _wait_until_ready(server: RunningServer, output: Path, deadline: float) -> None:
    while True:
        is_alive = server.is_alive
        for line in output.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            if line.endswith("\n") and _says_ready(line):
                return
        if not is_alive:
            raise server.failure("not_started", "ended before it was ready")
        if not wait_until(deadline, _POLL_SECONDS):
            raise server.failure("not_started", "was not ready in time")


def _says_ready(line: str) -> bool:
    try:
        event = json.loads(line)
    except ValueError:
        return False
    return isinstance(event, dict) and event.get("event") == "ready"
