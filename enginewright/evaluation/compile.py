"""One kernel file and its constants to one object, by `rustc`."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from enginewright.errors import MachineError
from enginewright.evaluation.sandbox import Policy, Sandbox
from enginewright.kernel_source import processor_features, processor_name, source_digest

FLAGS = (
    *("--edition", "2024", "--crate-type", "cdylib"),
    *("-C", "opt-level=3", "-C", "target-cpu=native", "-C", "panic=abort"),
    # Style is the linter's matter; what a candidate prints must not depend on it.
    *("--cap-lints", "allow"),
)
"""Flags of every kernel; part of the object's hash."""
MOST_COMPILE_SECONDS = 120.0
"""Time that one compile may take."""
MOST_COMPILE_BYTES = 4 << 30
"""Memory that one compile may take."""
_LINKER_PLACES = ("/usr/bin", "/bin", "/usr/libexec", "/etc/alternatives")
"""Where `cc` and what it calls lie."""
MOST_LOG_LINES = 30
"""Lines of the compiler that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One object to make."""

    source: Path
    """The kernel file."""
    constants: tuple[tuple[str, str], ...]
    """Environment of `rustc`, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFailure:
    """Why a kernel is no object."""

    kernel: str
    """Its name."""
    reason: str
    """One line."""
    log: str
    """First lines of the compiler."""


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """What `rustc -vV` says.

    Raises: MachineError if there is no compiler.
    """
    return _run_compiler(["-vV"], {}, Path.cwd(), 30.0).stdout


@lru_cache(maxsize=1)
def _machine() -> str:
    # `target-cpu=native` compiles for the processor as the system shows it.
    return f"{processor_name()} {' '.join(sorted(processor_features()))}"


def object_key(job: Job) -> str:
    """Hash of everything that decides the object's bytes.

    Raises: PlanError if a source is missing; MachineError if there is no compiler.
    """
    whole = [source_digest(job.source), job.constants, compiler_version(), FLAGS, _machine()]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def compile_object(job: Job, target: Path, sandbox: Sandbox | None = None) -> CompileFailure | None:
    """Compile into `target`, which appears whole or not at all; None on success.

    Raises: MachineError if there is no compiler or no room.
    """
    kernel = job.source.stem
    with tempfile.TemporaryDirectory(prefix=".compile.", dir=target.parent) as folder:
        made = Path(folder) / target.name
        arguments = [job.source.name, "-o", str(made), "--crate-name", kernel, *FLAGS]
        try:
            done = _compile(job, arguments, Path(folder), sandbox)
        except subprocess.TimeoutExpired:
            reason = f"did not compile within {MOST_COMPILE_SECONDS:.0f} s"
            return CompileFailure(kernel=kernel, reason=reason, log="")
        if done.returncode != 0:
            return _failure(kernel, done.returncode, done.stderr)
        made.replace(target)
    return None


def _compile(
    job: Job, arguments: list[str], out: Path, sandbox: Sandbox | None
) -> subprocess.CompletedProcess[str]:
    if sandbox is None:
        constants = dict(job.constants)
        return _run_compiler(arguments, constants, job.source.parent, MOST_COMPILE_SECONDS)
    # A source may include whatever the compiler can read: it reads the toolchain and its folder.
    sysroot = _sysroot()
    policy = Policy(
        read_only=(sysroot, job.source.parent, *(Path(place) for place in _LINKER_PLACES)),
        writable=(out,),
        environment={"PATH": "/usr/bin:/bin", **dict(job.constants)},
        working_folder=job.source.parent,
        memory_bytes=MOST_COMPILE_BYTES,
    )
    return subprocess.run(
        sandbox.command(policy, [sysroot / "bin/rustc", *arguments]),
        capture_output=True,
        text=True,
        timeout=MOST_COMPILE_SECONDS,
        check=False,
    )


@lru_cache(maxsize=1)
def _sysroot() -> Path:
    """Where the compiler and its library lie, behind whatever chooses a toolchain."""
    return Path(_run_compiler(["--print", "sysroot"], {}, Path.cwd(), 30.0).stdout.strip())


def _failure(kernel: str, code: int, log: str) -> CompileFailure:
    if "No space left on device" in log or os.strerror(errno.EDQUOT) in log:
        raise MachineError(f"kernel {kernel}: no room to compile it", hint="free some space")
    if "linker `cc` not found" in log:
        raise MachineError("there is no C linker (cc)", hint="install gcc or clang")
    lines = log.splitlines()
    first = next((line for line in lines if line.startswith("error")), f"rustc ended with {code}")
    return CompileFailure(kernel=kernel, reason=first, log="\n".join(lines[:MOST_LOG_LINES]))


def _run_compiler(
    arguments: list[str], constants: dict[str, str], folder: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    # A constant left over in our own environment would reach kernels that were not given it.
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("EW_")}
    try:
        return subprocess.run(
            ["rustc", *arguments],
            env=inherited | constants,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise MachineError(
            "there is no Rust compiler (rustc) on PATH",
            hint="install Rust from https://rustup.rs, then run again",
        ) from error
