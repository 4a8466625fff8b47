"""Lint every kernel file alone, with clippy, for the processor features that its contract asks for.

`python -m enginewright.plan.lint_kernels` checks the library; it needs `clippy-driver` (a rustup
component). A kernel is compiled for the features in its own `requires`, so a machine without
AVX-512 still lints the AVX-512 kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from enginewright.settings import load_settings

RUST_FEATURES = {"avx512_vnni": "avx512vnni", "avx_vnni": "avxvnni", "avx512_bf16": "avx512bf16"}
"""Names of /proc/cpuinfo that rustc spells in another way."""


def required_features(source: Path) -> list[str]:
    """The `requires` of a kernel's contract, in rustc's spelling."""
    lines = [
        line[4:] if line.startswith("//! ") else ""
        for line in source.read_text().splitlines()
        if line.startswith("//!")
    ]
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    contract = tomllib.loads("\n".join(lines[fences[0] + 1 : fences[1]]))
    return [RUST_FEATURES.get(name, name) for name in contract.get("requires", [])]


def is_kernel(source: Path) -> bool:
    """Whether a file of the library is a kernel of its own (not an include)."""
    return "//! ```toml" in source.read_text()


def lint(source: Path) -> str | None:
    """What clippy says against one kernel file; None when it is clean."""
    features = ",".join(f"+{name}" for name in required_features(source))
    with tempfile.TemporaryDirectory() as folder:
        command = ["clippy-driver", str(source), "--edition", "2024", "--crate-type", "cdylib"]
        command += ["--emit", "metadata", "--out-dir", folder, "-D", "warnings"]
        # What the host must keep to is written once, in abi.rs.
        command += ["-W", "clippy::all", "-A", "clippy::missing_safety_doc", "-C", "panic=abort"]
        if features:
            command += ["-C", f"target-feature={features}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{source.name}:\n{done.stderr}"


def main() -> int:
    """Lint the library; 0 when every file is clean."""
    sources = sorted(path for path in load_settings().kernels.glob("*.rs") if is_kernel(path))
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lint, sources) if text is not None]
    for text in complaints:
        print(text, file=sys.stderr)
    print(f"{len(sources)} kernel files linted, {len(complaints)} with complaints")
    return 1 if complaints or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
