"""One CUDA kernel file and its constants to one cubin, by `nvcc`."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from enginewright.errors import MachineError
from enginewright.evaluation.compile import (
    MOST_COMPILE_SECONDS,
    MOST_LOG_LINES,
    CompileFailure,
    Job,
)
from enginewright.evaluation.sandbox import Sandbox
from enginewright.kernel_source import source_digest

ARCHITECTURE = "sm_90a"
"""Chip that cubins are made for where nothing else is said: NVIDIA Hopper, with its own
instructions."""
FLAGS = (
    *("-cubin", "-std=c++20", "-O3", "--expt-relaxed-constexpr"),
    # An unused function of a header is no mistake.
    *("--diag-suppress", "177"),
)
"""Flags of every kernel; part of the object's hash."""


@lru_cache(maxsize=1)
def find_nvcc() -> Path:
    """The CUDA compiler: `ENGINEWRIGHT_NVCC`, then PATH, then the one that PyPI's
    `nvidia-cuda-nvcc` brings.

    Raises: MachineError if there is none.
    """
    named = os.environ.get("ENGINEWRIGHT_NVCC") or shutil.which("nvcc")
    if named:
        return Path(named)
    package = importlib.util.find_spec("nvidia")
    for place in (package.submodule_search_locations or []) if package else []:
        for found in sorted(Path(place).glob("cu*/bin/nvcc"), reverse=True):
            return found
    raise MachineError(
        "there is no CUDA compiler (nvcc)",
        hint="install the CUDA toolkit 13, or `uv sync --group cuda` in the checkout",
    )


@lru_cache(maxsize=1)
def nvcc_version() -> str:
    """What `nvcc --version` says.

    Raises: MachineError if there is no compiler.
    """
    return _run([], "--version").stdout


def cubin_key(job: Job, architecture: str = ARCHITECTURE) -> str:
    """Hash of everything that decides the cubin's bytes.

    Raises: PlanError if a source is missing; MachineError if there is no compiler.
    """
    whole = [source_digest(job.source), job.constants, nvcc_version(), FLAGS, architecture]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def compile_cubin(
    job: Job, target: Path, sandbox: Sandbox | None = None, architecture: str = ARCHITECTURE
) -> CompileFailure | None:
    """Compile into `target`, which appears whole or not at all; None on success. The sandbox is not
    used: cubins are made of this project's own kernels so far.

    Raises: MachineError if there is no compiler.
    """
    kernel = job.source.stem
    virtual = architecture.replace("sm_", "compute_")
    with tempfile.TemporaryDirectory(prefix=".compile.", dir=target.parent) as folder:
        made = Path(folder) / target.name
        defines = [f"-D{name}={_literal(value)}" for name, value in job.constants]
        arguments = [f"-gencode=arch={virtual},code={architecture}", *FLAGS, *defines]
        try:
            done = _run(arguments, "-o", str(made), str(job.source))
        except subprocess.TimeoutExpired:
            reason = f"did not compile within {MOST_COMPILE_SECONDS:.0f} s"
            return CompileFailure(kernel=kernel, reason=reason, log="")
        if done.returncode != 0:
            lines = (done.stderr + done.stdout).splitlines()
            ended = f"nvcc ended with {done.returncode}"
            reason = next((line for line in lines if "error" in line), ended)
            log = "\n".join(lines[:MOST_LOG_LINES])
            return CompileFailure(kernel=kernel, reason=reason, log=log)
        made.replace(target)
    return None


def _literal(value: str) -> str:
    """Numbers as they are; anything else as a text of C."""
    return value if value.isdecimal() else json.dumps(value)


def _run(arguments: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(find_nvcc()), *arguments, *more],
        capture_output=True,
        text=True,
        timeout=MOST_COMPILE_SECONDS,
        check=False,
    )
