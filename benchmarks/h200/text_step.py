"""Whole decode steps of a text model on one GPU: settings searched, engines compared, answers
checked against transformers.

    python3 BUNDLE/text_step.py OUT.json [--seconds 300]

Needs a GPU, PyTorch, transformers and the bundle of make_text_bundle.py; nothing of this project is
installed there. The weights are random at the shapes of the bundle's config: speed does not depend
on their values.
A step is one captured graph from token id to logits in host memory, timed by the host.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

BUNDLE = Path(__file__).resolve().parent
CONTEXTS = (64, 1024, 4000)
ROUNDS = 15
REPEATS = 200
POSITIONS = 64
LEAST_GAIN = 1.002
"""A setting replaces another only if it is this much faster: repeated runs differ by less."""


def profile(engine: Path, checkpoint: Path, *more: str, repeats: int = REPEATS) -> dict[str, Any]:
    done = subprocess.run(
        [BUNDLE / "enginewright-engine", "profile", "--engine", engine, "--checkpoint", checkpoint,
         "--step", "decode", "--repeats", str(repeats), *more],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def step_us(engine: Path, checkpoint: Path, context: int = 64) -> float:
    """Median of whole steps of one process, in microseconds."""
    told = profile(engine, checkpoint, "--whole", "--context", str(context))
    return statistics.median(told["step_nanoseconds"]) / 1e3


def group_kind(kernel: str, constants: dict[str, str]) -> str:
    """As in make_text_bundle.py."""
    widths = [
        f"{constants[f'EW_OP{number}_IN']}x{constants[f'EW_OP{number}_OUT']}"
        for number in range(len(constants["EW_OPS"].split()))
        if f"EW_OP{number}_IN" in constants
    ]
    return " ".join([f"{kernel}:", constants["EW_OPS"], *widths])


class Engine:
    """An engine folder whose decode groups can be given other settings."""

    def __init__(self, origin: Path, folder: Path) -> None:
        self.folder = folder
        self.plan = json.loads((origin / "plan.json").read_text())
        folder.mkdir()
        for path in origin.iterdir():
            if path.name != "plan.json":
                (folder / path.name).symlink_to(path.resolve())
        self.settings: dict[str, dict[str, Any]] = {}

    def use(self, kind: str, option: dict[str, Any]) -> None:
        self.settings[kind] = option
        for group in self.plan["steps"]["decode"]["groups"]:
            if group_kind(group["kernel"], group["constants"]) == kind:
                group["object"] = option["object"]
                group["parameters"] = option["parameters"]
        (self.folder / "plan.json").write_text(json.dumps(self.plan))


def search(engine: Engine, checkpoint: Path, seconds: float) -> list[dict[str, Any]]:
    """One parameter of one kind at a time, from the defaults on, until nothing helps or time is
    over. Answers with what was tried."""
    options = json.loads((BUNDLE / "options.json").read_text())
    by_object = {}
    for group in engine.plan["steps"]["decode"]["groups"]:
        by_object[group_kind(group["kernel"], group["constants"])] = group["object"]
    for kind, found in options.items():
        engine.use(kind, next(o for o in found if o["object"] == by_object[kind]))
    end = time.monotonic() + seconds
    best = step_us(engine.folder, checkpoint)
    tried = [{"kind": "", "parameters": {}, "us": best}]
    improved = True
    while improved:
        improved = False
        for kind, found in options.items():
            for name in found[0]["parameters"]:
                start = engine.settings[kind]
                kept = start
                for option in found:
                    others = option["parameters"] | {name: start["parameters"][name]}
                    if option == start or others != start["parameters"]:
                        continue
                    if time.monotonic() > end:
                        engine.use(kind, kept)
                        return tried
                    engine.use(kind, option)
                    us = step_us(engine.folder, checkpoint)
                    tried.append({"kind": kind, "parameters": option["parameters"], "us": us})
                    if us * LEAST_GAIN < best:
                        best, kept, improved = us, option, True
                engine.use(kind, kept)
    return tried


def check(engines: dict[str, Path], checkpoint: Path, scratch: Path) -> dict[str, dict[str, float]]:
    """Logits of generated tokens against transformers in float32: largest error relative to the
    largest logit, mean KL in nats, share of positions with the same best token."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).cuda().eval()
    ids = np.random.default_rng(2).integers(0, model.config.vocab_size, POSITIONS)
    with torch.no_grad():
        expected = model(torch.tensor(ids)[None].cuda()).logits[0].double().cpu().numpy()
    del model
    torch.cuda.empty_cache()
    (scratch / "input.json").write_text(json.dumps({"sequences": [ids.tolist()]}))
    found = {}
    for name, engine in engines.items():
        out = scratch / "out.safetensors"
        subprocess.run(
            [BUNDLE / "enginewright-engine", "evaluate", "--engine", engine, "--checkpoint",
             checkpoint, "--input", scratch / "input.json", "--output", out, "--step", "decode"],
            check=True,
        )  # fmt: skip
        logits = load_file(out)["0"].astype(np.float64)
        sure, other = (x - _log_sum(x) for x in (expected, logits))
        found[name] = {
            "relative_error": float(np.abs(logits - expected).max() / np.abs(expected).max()),
            "kl_nats": float((np.exp(sure) * (sure - other)).sum(-1).mean()),
            "same_token": float((logits.argmax(-1) == expected.argmax(-1)).mean()),
        }
    return found


def _log_sum(logits: np.ndarray) -> np.ndarray:
    most = logits.max(-1, keepdims=True)
    return most + np.log(np.exp(logits - most).sum(-1, keepdims=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=300, help="of the search")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        checkpoint = scratch / "checkpoint"
        subprocess.run(
            [sys.executable, BUNDLE / "random_checkpoint.py", BUNDLE / "config.json", checkpoint],
            check=True,
        )
        tuned = Engine(BUNDLE / "fused", scratch / "tuned")
        tried = search(tuned, checkpoint, arguments.seconds)
        engines = {name: BUNDLE / name for name in ("plain", "fused")} | {"tuned": tuned.folder}
        answers = check(engines, checkpoint, scratch)
        samples: dict[str, dict[str, list[float]]] = {}
        for context in CONTEXTS:
            times = samples.setdefault(str(context), {name: [] for name in engines})
            for _ in range(ROUNDS):
                for name, engine in engines.items():
                    if name != "plain" or len(times[name]) < 3:
                        times[name].append(step_us(engine, checkpoint, context))
        groups = profile(tuned.folder, checkpoint, repeats=50)["groups"]
        by_kernel: dict[str, float] = {}
        for group in groups:
            name = f"{group['kernel']} {len(group['ops'])}"
            by_kernel[name] = by_kernel.get(name, 0) + statistics.median(group["nanoseconds"]) / 1e3
        settings = {kind: option["parameters"] for kind, option in tuned.settings.items()}
    told = {
        "answers": answers, "samples_us": samples, "settings": settings, "tried": tried,
        "apart_us": by_kernel,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(told, indent=1))
    for context, times in samples.items():
        for name, values in times.items():
            median = statistics.median(values)
            print(f"context {context} {name}: {median:.1f} us, {1e6 / median:.0f} tokens/s")
    print(json.dumps({"answers": answers, "settings": settings, "apart_us": by_kernel}, indent=1))


if __name__ == "__main__":
    main()
