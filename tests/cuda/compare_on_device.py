"""Engines on this machine's GPU against the answers of the original implementation.

    python compare_on_device.py BUNDLE

Needs numpy, safetensors and a GPU; nothing of this project but the bundle of make_bundle.py.
Prints a line for each engine and step and ends with the counts; exit 1 if any differs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

MOST_ERROR = {"engine-f32": 2e-4, "engine-fast": 2e-4, "engine-f16": 2e-2}
"""Largest difference accepted, relative to the answer's largest value."""


def answer(bundle: Path, model: Path, engine: Path, step: list[str]) -> np.ndarray:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.safetensors"
        done = subprocess.run(
            [bundle / "enginewright-engine", "evaluate", "--engine", engine, "--checkpoint",
             model / "checkpoint", "--input", model / "input.json", "--output", out, *step],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return load_file(out)["0"]


def main() -> int:
    bundle = Path(sys.argv[1])
    counts = {"passed": 0, "failed": 0}
    for model in sorted(path for path in bundle.iterdir() if path.is_dir()):
        expected = load_file(model / "checkpoint/expected.safetensors")["answer"]
        steps = [[]] if expected.ndim == 1 else [[], ["--chunk", "7"], ["--step", "decode"]]
        for engine in sorted(model.glob("engine-*")):
            for step in steps:
                name = f"{model.name} {engine.name} {' '.join(step) or 'whole'}"
                try:
                    found = answer(bundle, model, engine, step)
                except RuntimeError as error:
                    print(f"FAILED {name}: {error}")
                    counts["failed"] += 1
                    continue
                error = np.abs(found - expected).max() / np.abs(expected).max()
                passed = found.shape == expected.shape and error <= MOST_ERROR[engine.name]
                print(f"{'passed' if passed else 'FAILED'} {name}: relative error {error:.1e}")
                counts["passed" if passed else "failed"] += 1
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
