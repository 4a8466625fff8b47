"""Where things lie: the only place that reads the environment.

Order: environment variable, then default. Resolved once into a record with every field filled.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parent.parent
"""The checkout (or installed copy) that holds `rust/` and `kernels/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Resolved places."""

    home: Path
    """Archive, store, object cache and memory. `ENGINEWRIGHT_HOME`, default `./.enginewright`."""
    runs: Path
    """One folder for each run. `ENGINEWRIGHT_RUNS`, default `./runs`."""
    engine_program: Path
    """The host program. `ENGINEWRIGHT_ENGINE`, default the release build in `rust/target`."""
    sandbox_program: Path
    """What candidates are shut in by. `ENGINEWRIGHT_SANDBOX`, default beside the host program."""
    kernels: Path
    """The kernel library for CPUs. `ENGINEWRIGHT_KERNELS`, default `kernels/cpu`."""
    cuda_kernels: Path
    """The kernel library for NVIDIA GPUs. `ENGINEWRIGHT_CUDA_KERNELS`, default `kernels/cuda`."""
    rust: Path
    """The Cargo workspace, needed by `ship`."""


def load_settings() -> Settings:
    """Resolve every setting from the environment; nothing else reads it."""

    def place(variable: str, default: Path) -> Path:
        text = os.environ.get(variable)
        return Path(text).expanduser().resolve() if text else default

    return Settings(
        home=place("ENGINEWRIGHT_HOME", Path.cwd() / ".enginewright"),
        runs=place("ENGINEWRIGHT_RUNS", Path.cwd() / "runs"),
        engine_program=place(
            "ENGINEWRIGHT_ENGINE", SOURCE_ROOT / "rust/target/release/enginewright-engine"
        ),
        sandbox_program=place(
            "ENGINEWRIGHT_SANDBOX", SOURCE_ROOT / "rust/target/release/enginewright-sandbox"
        ),
        kernels=place("ENGINEWRIGHT_KERNELS", SOURCE_ROOT / "kernels/cpu"),
        cuda_kernels=place("ENGINEWRIGHT_CUDA_KERNELS", SOURCE_ROOT / "kernels/cuda"),
        rust=SOURCE_ROOT / "rust",
    )


def secret(variable: str) -> str | None:
    """The value of an environment variable that holds a key; None if it is not set. It is handed to
    the client that needs it, and written nowhere."""
    return os.environ.get(variable) or None
