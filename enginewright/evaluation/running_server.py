"""A server process of its own group: started, watched, measured from outside, stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from enginewright.errors import EngineError

_STOP_SECONDS = 10.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_QUOTED_BYTES = 2000
_PR_SET_PDEATHSIG = 1

FailureReason = Literal["not_started", "died", "timed_out", "refused"]


class ServerFailed(EngineError):
    """A server did not start, died or gave no answer; `reason` says which."""

    def __init__(self, reason: FailureReason, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason: FailureReason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Resident memory of a server's processes, in bytes."""

    peak_bytes: int
    """Largest resident set, mapped files included (VmHWM)."""
    anonymous_bytes: int
    """Resident now and private (RssAnon)."""
    file_bytes: int
    """Resident now and backed by files (RssFile)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """How a server ended."""

    exit_code: int
    """Negative: the signal that ended it."""
    had_to_be_killed: bool
    """Whether it did not end on SIGTERM in time."""


class Server(Protocol):
    """A server that answers at `base_url`, whoever started it."""

    name: str
    base_url: str
    start_seconds: float | None
    model: str | None
    api_key: str | None
    fields: dict[str, Any]

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, as far as can be known."""
        ...

    def ends_within(self, seconds: float) -> bool:
        """Whether it has ended, or ends within so many seconds."""
        ...

    def memory(self) -> Memory | None:
        """Resident memory; None if its processes are not here."""
        ...

    def cpu_seconds(self) -> float | None:
        """Processor time used so far; None if its processes are not known."""
        ...

    def failure(self, reason: FailureReason, what: str) -> ServerFailed:
        """An error about it that says all that is known."""
        ...

    def stop(self) -> Stopped | None:
        """End it; None if it is not ours to end."""
        ...


class RunningServer:
    """A process group that serves HTTP at `base_url`. Owns the group until `stop`."""

    def __init__(
        self, *, name: str, process: subprocess.Popen[bytes], log: Path, launchers: int = 0
    ) -> None:
        """`launchers`: how many of the first processes are a sandbox's own: their memory is not the
        server's."""
        self.name = name
        self._launchers = launchers
        self.base_url = ""
        self.start_seconds: float | None = None
        self.model: str | None = None
        self.api_key: str | None = None
        self.fields: dict[str, Any] = {}
        self.log = log
        self._process = process
        self._stopped: Stopped | None = None

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the first process; the group has the same number."""
        return self._process.pid

    def ends_within(self, seconds: float) -> bool:
        """Whether the first process has ended, or ends within so many seconds."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def is_alive(self) -> bool:
        """Whether the first process still runs."""
        return self._process.poll() is None

    def memory(self) -> Memory | None:
        """Resident memory of all processes that came from the first, whatever group they are in.

        Raises: ServerFailed (`died`) if none is left.
        """
        totals = {"VmHWM": 0, "RssAnon": 0, "RssFile": 0}
        for pid in _tree(self.pid)[self._launchers :]:
            for name, size_bytes in _status_bytes(pid).items():
                if name in totals:
                    totals[name] += size_bytes
        if not totals["VmHWM"]:
            raise self.failure("died", "has ended; its memory cannot be read")
        return Memory(
            peak_bytes=totals["VmHWM"],
            anonymous_bytes=totals["RssAnon"],
            file_bytes=totals["RssFile"],
        )

    def cpu_seconds(self) -> float:
        """Processor time that all processes that came from the first have used so far."""
        return sum(_cpu_seconds(pid) for pid in _tree(self.pid))

    def failure(self, reason: FailureReason, what: str) -> ServerFailed:
        """An error about this server that quotes the end of its log."""
        code = self._process.poll()
        ended = f" (exit code {code})" if code is not None else ""
        quoted = log_tail(self.log)
        says = f"; its log ends: {quoted}" if quoted else "; its log is empty"
        return ServerFailed(
            reason, f"{self.name} {what}{ended}{says}", hint=f"the whole log: {self.log}"
        )

    def stop(self) -> Stopped:
        """End the group: SIGTERM, SIGKILL after ten seconds. Stopping again changes nothing."""
        if self._stopped is not None:
            return self._stopped
        had_to_be_killed = False
        _signal_group(self.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            had_to_be_killed = True
        # Also when the first process ended by itself: what it started must not outlive it.
        _signal_group(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self._stopped = Stopped(exit_code=code, had_to_be_killed=had_to_be_killed)
        return self._stopped


def spawn_server(
    command: Sequence[str],
    *,
    name: str,
    log: Path,
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    launchers: int = 0,
) -> tuple[RunningServer, Path]:
    """Start `command` in a group of its own; it has no standard input but `pass_fds`, and dies with
    the thread that started it. The file with its standard output is the second result.

    Raises: ServerFailed (`not_started`) if the program cannot be run.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    output = log.with_suffix(".stdout")
    try:
        with log.open("wb") as errors, output.open("wb") as answers:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=answers,
                stderr=errors,
                env=dict(environment),
                start_new_session=True,
                preexec_fn=die_with_parent,
                pass_fds=pass_fds,
            )
    except OSError as error:
        raise ServerFailed(
            "not_started", f"{name}: {command[0]} cannot be run: {error}", hint="run `make setup`"
        ) from error
    return RunningServer(name=name, process=process, log=log, launchers=launchers), output


def log_tail(log: Path) -> str:
    """The end of a log as one line, at most 2,000 bytes of it."""
    try:
        content = log.read_bytes()[-_QUOTED_BYTES:]
    except OSError:
        return ""
    return " | ".join(content.decode("utf-8", errors="replace").split("\n")).strip(" |")


def die_with_parent() -> None:
    """Runs in the child: the kernel kills it when its parent is gone, even after kill -9."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_until(deadline: float, pause_seconds: float) -> bool:
    """Sleep for `pause_seconds`; False once the monotonic clock is past `deadline`."""
    if time.monotonic() >= deadline:
        return False
    time.sleep(pause_seconds)
    return True


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        # Nobody is left: that is what the signal was for.
        return


def _tree(first: int) -> list[int]:
    """The process and all that came from it, parents before children; also members of its group
    whose parents have ended."""
    children: dict[int, list[int]] = {}
    group = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat_fields(int(entry.name))
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
                if int(fields[2]) == first:
                    group.append(int(entry.name))
    found = [first] if first in group else []
    for pid in found:
        found += sorted(children.get(pid, []))
    return found + sorted(set(group) - set(found))


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat after the name: state, parent, group, …; None if it ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _cpu_seconds(pid: int) -> float:
    fields = _stat_fields(pid)
    if fields is None:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_SECOND


def _status_bytes(pid: int) -> dict[str, int]:
    """Sizes of /proc/PID/status by name, in bytes."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    sizes = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[name] = int(value.split()[0]) * 1024
    return sizes
