"""Programs that nobody trusts (engines, kernels under check, compilers over their sources), run by
`enginewright-sandbox`; docs/sandbox.md says what each layer keeps in.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from enginewright.errors import MachineError

Level = Literal["strong", "weak"]
"""`strong`: namespaces, a root of its own, seccomp, limits. `weak`: limits, seccomp and no new
privileges: files and other processes of the same user stay in reach."""

SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
)
"""Shared libraries, as the loader finds them."""
_PROBE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """What the sandbox can do on this machine."""

    level: Literal["strong", "weak", "none"]
    """The most that can be had."""
    layers: dict[str, str | None]
    """Layer → None if it works, else why it does not."""

    def to_json(self) -> dict[str, Any]:
        """For evidence and `doctor`."""
        return {"level": self.level, "layers": self.layers}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one program may see and use."""

    read_only: tuple[Path, ...]
    """Files and folders it may read and execute."""
    writable: tuple[Path, ...] = ()
    """Files and folders it may write; run by root, it owns them from then on."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its whole environment."""
    keep_fds: tuple[int, ...] = ()
    """File descriptors besides 0, 1 and 2 that it gets."""
    working_folder: Path | None = None
    """Where it starts."""
    memory_bytes: int | None = None
    """Memory of the whole tree where a control group can be had, else of each process."""
    processes: int = 256
    """Most processes and threads."""
    file_bytes: int = 64 << 20
    """Largest file."""
    cpu_seconds: int | None = None
    """Processor time of each process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How programs are run on this machine."""

    program: Path
    """`enginewright-sandbox`."""
    level: Level
    """What is asked for; less is an error."""

    def command(self, policy: Policy, command: Sequence[str | Path]) -> tuple[str, ...]:
        """The command that runs `command` under the policy, with the system's libraries."""
        described = {
            "level": self.level,
            "read_only": [*SYSTEM, *(str(path.resolve()) for path in policy.read_only)],
            "writable": [str(path.resolve()) for path in policy.writable],
            "environment": dict(policy.environment),
            "keep_fds": list(policy.keep_fds),
            "working_folder": None
            if policy.working_folder is None
            else str(policy.working_folder.resolve()),
            "memory_bytes": policy.memory_bytes,
            "processes": policy.processes,
            "file_bytes": policy.file_bytes,
            "cpu_seconds": policy.cpu_seconds,
        }
        text = json.dumps(described)
        return (str(self.program), "run", "--policy", text, "--", *(str(part) for part in command))

    def report(self) -> dict[str, Any]:
        """What evidence says of it: the level in force and the layers that are missing."""
        return {"level": self.level, "layers": probe_sandbox(self.program).layers}


@lru_cache(maxsize=4)
def probe_sandbox(program: Path) -> SandboxReport:
    """What can be had here, found by trying.

    Raises: MachineError if the program is missing or does not answer.
    """
    try:
        done = subprocess.run(
            [program, "probe"], capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS
        )
        found = json.loads(done.stdout)
        return SandboxReport(level=found["level"], layers=found["layers"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise MachineError(
            f"{program}: the sandbox does not answer: {error}", hint="run `make setup`"
        ) from error


def open_sandbox(program: Path, level: Level) -> Sandbox:
    """A sandbox of this level.

    Raises: MachineError if this machine cannot give it, with what to do.
    """
    report = probe_sandbox(program)
    if level == "strong" and report.level != "strong":
        raise MachineError(
            f"candidates cannot be shut in here: {report.layers.get('own_root')}",
            hint="run where namespaces are allowed (not in a container without them), or accept "
            "less for engines that you trust with --sandbox=weak",
        )
    if report.level == "none":
        raise MachineError(
            "this kernel has no seccomp filters: candidates cannot be bounded at all",
            hint="build on a Linux kernel of 2012 or later",
        )
    return Sandbox(program=program, level=level)
