"""The interval of a speed-up from blocks and from the requests inside them: a two-level bootstrap.

A block is one process of each arm, and blocks are what is replicated; the requests of a block share
its processes, and tell how well the block itself is known. Blocks are drawn with replacement, and
within each drawn block its pairs of requests. Interval ends are those of the expanded percentile
method: with few blocks, plain percentiles are too narrow.

Source: Davison & Hinkley 1997, section 3.8 (two levels); Hesterberg 2015, "What teachers should
know about the bootstrap" (expanded percentiles).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from enginewright.evaluation.metrics import request_logs, speedup_log
from enginewright.evaluation.passes import Pass
from enginewright.evaluation.statistics import (
    EXACT_BELOW,
    Estimate,
    Floats,
    Interval,
    IntervalName,
    estimate,
    hodges_lehmann,
    pair_means,
)
from enginewright.target import Target

DRAWS = 9_999
"""Resamples of an interval."""

Samples = tuple[tuple[float, ...], ...]
"""Of one block: for each scenario, the log ratio of each pair of requests."""


def block_samples(
    target: Target, passes: Mapping[str, Pass], by_scenario: Mapping[str, float]
) -> Samples:
    """The pairs of requests of a block: positive is where the candidate was faster.

    `passes` are those of `champion` and `candidate`; `by_scenario` is what the block as a whole
    says of each scenario. An objective that is no mean over requests (`texts_per_s`,
    `throughput_tokens_per_s`) has one sample a scenario: the block's.
    """
    objective = target.workload.objective
    found: list[tuple[float, ...]] = []
    for scenario in target.workload.scenario:
        if scenario.name not in by_scenario:
            continue
        before, after = (
            request_logs(
                objective,
                [answer for answer in passes[name].answers if answer.scenario == scenario.name],
            )
            for name in ("champion", "candidate")
        )
        if before is None or after is None or before.keys() != after.keys():
            found.append((by_scenario[scenario.name],))
            continue
        found.append(
            tuple(
                speedup_log(objective, math.exp(value), math.exp(after[number]))
                for number, value in before.items()
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchical:
    """The interval that knows what is inside the blocks."""

    blocks: tuple[Samples, ...]
    """Of each block, in the order taken."""

    def __call__(
        self, log_ratios: Sequence[float] | Floats, *, confidence: float = 0.95
    ) -> Estimate:
        """The Hodges-Lehmann estimate of the first blocks' log ratios, with its interval; below
        eight blocks the exact one of `estimate`.

        Raises: ValueError if there are more ratios than blocks.
        """
        if len(log_ratios) > len(self.blocks):
            raise ValueError(f"{len(log_ratios)} ratios of {len(self.blocks)} blocks")
        if len(log_ratios) < EXACT_BELOW:
            return estimate(log_ratios, confidence=confidence)
        centre = hodges_lehmann(log_ratios)
        low, high = _interval(self.blocks[: len(log_ratios)], confidence)
        return Estimate(value=centre, low=min(low, centre), high=max(high, centre))


def interval_of(name: IntervalName, blocks: Sequence[Samples]) -> Interval:
    """The interval that a trial's rules name: `blocks/1` looks at the blocks alone."""
    match name:
        case "blocks/1":
            return estimate
        case "hierarchical/1":
            return Hierarchical(blocks=tuple(blocks))


def _interval(blocks: Sequence[Samples], confidence: float) -> tuple[float, float]:
    # Always the same draws: the same samples must give the same interval to whoever replays them.
    centres = np.median(pair_means(_resampled(blocks, np.random.default_rng(0))), axis=-1)
    count = len(blocks)
    reach = math.sqrt(count / (count - 1)) * stats.t.isf((1.0 - confidence) / 2.0, count - 1)
    tail = float(stats.norm.sf(reach))
    low, high = np.quantile(centres, [tail, 1.0 - tail])
    return float(low), float(high)


def _resampled(blocks: Sequence[Samples], rng: np.random.Generator) -> Floats:
    """Log ratios of drawn blocks, [draws, blocks]."""
    count = len(blocks)
    chosen = rng.integers(0, count, (DRAWS, count))
    values = np.empty((DRAWS, count))
    for place, scenarios in enumerate(blocks):
        is_it = chosen == place
        drawn = np.zeros(int(is_it.sum()))
        for samples in scenarios:
            held = np.asarray(samples)
            drawn += held[rng.integers(0, held.size, (drawn.size, held.size))].mean(axis=1)
        values[is_it] = drawn / len(scenarios)
    return values
