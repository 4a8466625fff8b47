"""How often the judge promotes what is no better, and how often it sees what is.

    .venv/bin/python benchmarks/judge/campaigns.py [--campaigns 200]

Campaigns on made noise (normal, heavy tails, neighbouring blocks alike) and on this machine's own
(noise.json, see record_noise.py; runs of neighbouring blocks are drawn together). The rules are the
judge's own code: A/A first, looks, the campaign's error rate. Beside them, on the same blocks, the
rule that most loops use: the median of three runs, kept if it is better by one per cent. Writes
results/campaigns.json; `tables.py` shows it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from enginewright.evaluation.calibration import calibration_of
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.multiplicity import next_level
from enginewright.evaluation.statistics import decide

HERE = Path(__file__).resolve().parent
NOISE = HERE / "noise.json"
CALIBRATION_BLOCKS = 8
CANDIDATES = 12
EFFECTS = (0.01, 0.02, 0.05)
SD = 0.01

Draw = Callable[[int], np.ndarray]


def normal(rng: np.random.Generator) -> Draw:
    return lambda count: rng.normal(0.0, SD, count)


def heavy(rng: np.random.Generator) -> Draw:
    """Student's t with three degrees of freedom, of the same standard deviation."""
    return lambda count: rng.standard_t(3, count) * SD / math.sqrt(3.0)


def alike(rng: np.random.Generator) -> Draw:
    """Neighbouring blocks alike: AR(1) with 0.4."""

    def draw(count: int) -> np.ndarray:
        values = np.empty(count)
        last = rng.normal(0.0, SD)
        for place in range(count):
            last = 0.4 * last + rng.normal(0.0, SD * math.sqrt(1 - 0.16))
            values[place] = last
        return values

    return draw


def recorded(rng: np.random.Generator, values: np.ndarray) -> Draw:
    """Runs of four neighbouring blocks of a recording, centred; each run with either sign."""
    centred = values - np.median(values)

    def draw(count: int) -> np.ndarray:
        parts = []
        for _ in range(math.ceil(count / 4)):
            start = int(rng.integers(0, len(centred) - 3))
            parts.append(centred[start : start + 4] * rng.choice((-1.0, 1.0)))
        return np.concatenate(parts)[:count]

    return draw


@dataclass
class Judged:
    """What became of one candidate."""

    promoted: bool
    blocks: int


def judge(values: np.ndarray, settings: JudgeSettings) -> Judged:
    """As a trial looks: block by block until it is decided."""
    smallest = math.log1p(settings.smallest_effect)
    ratios = [float(value) for value in values]
    for count in range(1, settings.looks.blocks[-1] + 1):
        decision = decide(ratios[:count], settings.looks, smallest_effect=smallest)
        if decision != "go_on":
            return Judged(decision == "better", count)
    return Judged(False, settings.looks.blocks[-1])


def campaign(draw: Draw, effect: float, *, only_last: bool = False) -> list[Judged]:
    """Candidates of a campaign in turn; all are clones but, with `only_last`, the last."""
    base = JudgeSettings()
    found = calibration_of([float(value) for value in draw(CALIBRATION_BLOCKS)], base.looks)
    smallest = max(base.smallest_effect, found.detectable)
    judged: list[Judged] = []
    for number in range(CANDIDATES):
        level = next_level([held.promoted for held in judged])
        settings = replace(base, looks=base.looks.at_level(level), smallest_effect=smallest)
        shift = math.log1p(effect) if not only_last or number == CANDIDATES - 1 else 0.0
        judged.append(judge(draw(settings.looks.blocks[-1]) + shift, settings))
    return judged


def median_of_three(draw: Draw, effect: float) -> bool:
    """The usual rule on the same noise: three runs, kept if the median is better by 1 %."""
    return bool(np.median(draw(3)) + math.log1p(effect) >= math.log1p(0.01))


def interval(hits: int, of: int) -> tuple[float, float]:
    held = stats.binomtest(hits, of).proportion_ci(confidence_level=0.95)
    return float(held.low), float(held.high)


def rate(hits: int, of: int) -> dict[str, Any]:
    low, high = interval(hits, of)
    return {"hits": hits, "of": of, "rate": hits / of, "low": low, "high": high}


def measure(name: str, draw: Draw, campaigns: int) -> dict[str, Any]:
    clones = [campaign(draw, 0.0) for _ in range(campaigns)]
    told: dict[str, Any] = {
        "noise": name,
        "false_promotion": rate(sum(any(h.promoted for h in held) for held in clones), campaigns),
        "false_promotion_median_of_three": rate(
            sum(any(median_of_three(draw, 0.0) for _ in range(CANDIDATES)) for _ in clones),
            campaigns,
        ),
        "blocks_per_clone": statistics.mean(h.blocks for held in clones for h in held),
        "power": {},
    }
    for effect in EFFECTS:
        # The first of a campaign, and the last behind eleven clones: the level has fallen by then.
        first, last, blocks = 0, 0, []
        for _ in range(campaigns // 2):
            judged = campaign(draw, effect, only_last=True)
            last += judged[-1].promoted
            alone = campaign_first(draw, effect)
            first += alone.promoted
            if alone.promoted:
                blocks.append(alone.blocks)
        usual = sum(median_of_three(draw, effect) for _ in range(campaigns))
        told["power"][f"{effect:g}"] = {
            "first": rate(first, campaigns // 2),
            "behind_eleven_clones": rate(last, campaigns // 2),
            "blocks": statistics.median(blocks) if blocks else None,
            "median_of_three": rate(usual, campaigns),
        }
    return told


def campaign_first(draw: Draw, effect: float) -> Judged:
    """The first candidate behind a promotion, as the one behind the big step is."""
    base = JudgeSettings()
    found = calibration_of([float(value) for value in draw(CALIBRATION_BLOCKS)], base.looks)
    settings = replace(
        base,
        looks=base.looks.at_level(next_level([True])),
        smallest_effect=max(base.smallest_effect, found.detectable),
    )
    return judge(draw(settings.looks.blocks[-1]) + math.log1p(effect), settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261201)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    draws: dict[str, Draw] = {
        f"normal, sd {SD:.1%}": normal(rng),
        f"heavy tails (t3), sd {SD:.1%}": heavy(rng),
        f"neighbours alike (0.4), sd {SD:.1%}": alike(rng),
    }
    if NOISE.exists():
        held = json.loads(NOISE.read_text())
        values = np.asarray(held["log_ratios"])
        draws[f"recorded here, sd {held['sd']:.1%}"] = recorded(rng, values)
    rows = []
    for name, draw in draws.items():
        rows.append(measure(name, draw, arguments.campaigns))
        print(json.dumps(rows[-1])[:300], flush=True)
    out = HERE / "results/campaigns.json"
    out.write_text(
        json.dumps(
            {"campaigns": arguments.campaigns, "candidates": CANDIDATES, "seed": arguments.seed,
             "rows": rows},
            indent=1,
        )
        + "\n"
    )  # fmt: skip


if __name__ == "__main__":
    main()
