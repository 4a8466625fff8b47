"""What can be done about neighbouring blocks that are alike (AR(1) with 0.4), and what it costs.

    .venv/bin/python benchmarks/judge/remedies.py [--campaigns 600]

Each remedy is one more test that a promotion must pass at its look's error rate, beside the exact
one. Campaigns, looks and levels are the judge's own; the bootstrap is left out (it is slow, and it
takes blocks as independent too), so the rates of all remedies are a little too high. Writes
results/remedies.json. `campaigns.py` measures the one that was taken, with nothing left out.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from campaigns import CALIBRATION_BLOCKS, CANDIDATES, EFFECTS, Draw, alike, normal, rate
from scipy import stats

from enginewright.evaluation.calibration import calibration_of
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.multiplicity import next_level
from enginewright.evaluation.statistics import (
    Looks,
    chance_of_batch_means,
    chance_of_sign_flips,
    hodges_lehmann,
)

OUT = Path(__file__).resolve().parent / "results/remedies.json"
LOOKS = replace(JudgeSettings().looks, batch_blocks=1)
Remedy = Callable[[np.ndarray, float], bool]


def nothing(values: np.ndarray, alpha: float) -> bool:
    return True


def batches(of: int) -> Remedy:
    """Student's t over means of `of` neighbouring blocks."""
    return lambda values, alpha: chance_of_batch_means(values, of) <= alpha


def effective(*, least: float, corrected: bool) -> Remedy:
    """Student's t with the sample size that an AR(1) of the estimated correlation leaves.

    Source: Marriott & Pope 1954 (the correction of the estimate's bias).
    """

    def holds(values: np.ndarray, alpha: float) -> bool:
        count = len(values)
        centred = values - values.mean()
        found = float(centred[1:] @ centred[:-1]) / float(centred @ centred)
        if corrected:
            found = (count * found + 1.0) / (count - 4.0)
        inflation = (1.0 + min(0.9, max(least, found))) / (1.0 - min(0.9, max(least, found)))
        size = max(2.0, count / inflation)
        error = values.std(ddof=1) * math.sqrt(inflation / count)
        return bool(values.mean() / error > stats.t.isf(alpha, size - 1.0))

    return holds


REMEDIES: dict[str, Remedy] = {
    "none": nothing,
    "batch means, 2 blocks each": batches(2),
    "batch means, 3 blocks each": batches(3),
    "effective sample size": effective(least=0.0, corrected=False),
    "effective sample size, bias corrected": effective(least=0.0, corrected=True),
    "effective sample size, correlation at least 0.2": effective(least=0.2, corrected=True),
}


def judge(values: np.ndarray, looks: Looks, smallest: float, remedy: Remedy) -> tuple[bool, int]:
    """As a trial looks, without the bootstrap: whether it is promoted, and after how many
    blocks."""
    for count in range(1, looks.blocks[-1] + 1):
        held = values[:count]
        if count == looks.overwhelming_after and held.min() >= looks.overwhelming:
            return True, count
        is_early = looks.hopeless_after <= count < looks.blocks[0]
        if is_early and held.max() < -smallest:
            return False, count
        if count not in looks.blocks and count not in looks.futile_at:
            continue
        value = hodges_lehmann(held)
        if count in looks.blocks:
            alpha = looks.alphas[looks.blocks.index(count)]
            is_sure = chance_of_sign_flips(held) <= alpha and remedy(held, alpha)
            if is_sure and value >= smallest:
                return True, count
        if value < 0.5 * smallest:
            return False, count
    return False, looks.blocks[-1]


def smallest_effect(draw: Draw) -> float:
    found = calibration_of([float(value) for value in draw(CALIBRATION_BLOCKS)], LOOKS)
    return math.log1p(max(JudgeSettings().smallest_effect, found.detectable))


def promotes_a_clone(draw: Draw, remedy: Remedy) -> bool:
    smallest, promoted = smallest_effect(draw), []
    for _ in range(CANDIDATES):
        looks = LOOKS.at_level(next_level(promoted))
        promoted.append(judge(draw(looks.blocks[-1]), looks, smallest, remedy)[0])
    return any(promoted)


def measure(remedy: Remedy, draw: Draw, campaigns: int) -> dict[str, object]:
    told: dict[str, object] = {
        "false_promotion": rate(
            sum(promotes_a_clone(draw, remedy) for _ in range(campaigns)), campaigns
        )
    }
    for effect in EFFECTS:
        looks, blocks = LOOKS.at_level(next_level([True])), []
        for _ in range(campaigns // 4):
            values = draw(looks.blocks[-1]) + math.log1p(effect)
            is_seen, count = judge(values, looks, smallest_effect(draw), remedy)
            if is_seen:
                blocks.append(count)
        told[f"{effect:g}"] = {
            "seen": len(blocks) / (campaigns // 4),
            "blocks": statistics.mean(blocks) if blocks else None,
        }
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=600)
    parser.add_argument("--seed", type=int, default=20261207)
    arguments = parser.parse_args()
    rows = []
    for name, remedy in REMEDIES.items():
        row: dict[str, object] = {"remedy": name}
        for noise, make in (("neighbours alike (0.4)", alike), ("normal", normal)):
            draw = make(np.random.default_rng(arguments.seed))
            row[noise] = measure(remedy, draw, arguments.campaigns)
        rows.append(row)
        print(json.dumps(row), flush=True)
    OUT.write_text(
        json.dumps(
            {"campaigns": arguments.campaigns, "seed": arguments.seed, "rows": rows}, indent=1
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
