"""How often the intervals of a speed-up hold the truth: blocks alone, and blocks with their
requests.

    .venv/bin/python benchmarks/judge/coverage.py [--trials 400]

Made blocks of two scenarios with four requests each, whose true log ratio is 0.03: noise of the
block (its processes) and noise of the requests inside, in several proportions. Nominal coverage is
95 %. Writes results/coverage.json; `tables.py` shows it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path

import numpy as np
from campaigns import rate

from enginewright.evaluation.hierarchical import Hierarchical, Samples
from enginewright.evaluation.statistics import estimate

OUT = Path(__file__).resolve().parent / "results/coverage.json"
TRUE, SCENARIOS, REQUESTS = 0.03, 2, 4
NOISES = {
    "blocks 1 %, requests 0": (0.01, 0.0, False),
    "blocks 1 %, requests 1 %": (0.01, 0.01, False),
    "blocks 1 %, requests 4 %": (0.01, 0.04, False),
    "blocks 1 % with heavy tails (t3), requests 1 %": (0.01, 0.01, True),
}
BLOCKS = (8, 10, 14)


def made_blocks(
    rng: np.random.Generator, count: int, between: float, within: float, heavy: bool
) -> tuple[Samples, ...]:
    size = count
    blocks = rng.standard_t(3, size) / math.sqrt(3.0) if heavy else rng.standard_normal(size)
    return tuple(
        tuple(
            tuple(TRUE + between * block + within * rng.standard_normal(REQUESTS))
            for _ in range(SCENARIOS)
        )
        for block in blocks
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20261207)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    rows = []
    for name, (between, within, heavy) in NOISES.items():
        for count in BLOCKS:
            inside = {"blocks/1": 0, "hierarchical/1": 0}
            widths: dict[str, list[float]] = {held: [] for held in inside}
            for _ in range(arguments.trials):
                blocks = made_blocks(rng, count, between, within, heavy)
                ratios = [float(np.mean(block)) for block in blocks]
                for kind, made in (
                    ("blocks/1", estimate),
                    ("hierarchical/1", Hierarchical(blocks=blocks)),
                ):
                    found = made(ratios)
                    inside[kind] += found.low <= TRUE <= found.high
                    widths[kind].append(found.high - found.low)
            rows.append(
                {
                    "noise": name,
                    "blocks": count,
                    **{
                        kind: {
                            **rate(hits, arguments.trials),
                            "median_width": statistics.median(widths[kind]),
                        }
                        for kind, hits in inside.items()
                    },
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    OUT.write_text(
        json.dumps({"trials": arguments.trials, "seed": arguments.seed, "rows": rows}, indent=1)
        + "\n"
    )


if __name__ == "__main__":
    main()
