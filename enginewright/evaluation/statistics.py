"""How sure a speed-up is: paired log ratios, exact below eight blocks, bootstrap above, and a test
that looks several times without promising too much.

Source: Hodges & Lehmann 1963 (estimate and signed-rank interval); Efron 1987 (BCa).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

EXACT_BELOW = 8
"""Blocks below which the interval is from all flips of sign, not from a bootstrap."""
FUTILITY_CONFIDENCE = 0.9
"""Of the interval by which a candidate is given up where it cannot be promoted."""
_DRAWS = 9_999

Decision = Literal["better", "not_better", "go_on"]
IntervalName = Literal["blocks/1", "hierarchical/1"]
"""What makes the interval of a trial's speed-up. A rule that changes gets another number: evidence
names the one that it was decided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """When a trial may be decided, and how much of the error rate each look spends."""

    blocks: tuple[int, ...] = (6, 10, 14)
    """Numbers of valid blocks; the first is the least that can promote."""
    alphas: tuple[float, ...] = (0.02, 0.015, 0.015)
    """One-sided error rate of each look; their sum bounds the rate of false promotion."""
    futile_at: tuple[int, ...] = (6, 10, 14)
    """Numbers of blocks at which a candidate may be given up, whether or not it could be promoted
    there: giving up costs no error rate."""
    hopeless_after: int = 3
    """Blocks from which a candidate that is clearly slower is dropped."""
    overwhelming: float = math.log(1.5)
    """Log ratio that every block of a leap has: noise that makes three of them in a row is noise
    that calibration refuses…"""
    overwhelming_after: int = 3
    """…so that many blocks are enough for it."""
    batch_blocks: int = 2
    """Neighbouring blocks that are averaged for the test of batch means: two are one ABBA. 1 asks
    for no such test, as judges did before there was one."""

    def __post_init__(self) -> None:
        if len(self.blocks) != len(self.alphas) or list(self.blocks) != sorted(set(self.blocks)):
            raise ValueError(f"looks at {self.blocks} with error rates {self.alphas}")
        if self.batch_blocks < 1:
            raise ValueError(f"batch_blocks is {self.batch_blocks}; at least 1 is expected")
        for blocks, alpha in zip(self.blocks, self.alphas, strict=True):
            if alpha < 2.0**-blocks:
                raise ValueError(f"{blocks} blocks cannot reach an error rate of {alpha}")

    @property
    def alpha(self) -> float:
        """Bound on the rate of false promotion of one trial."""
        return sum(self.alphas)

    def at_level(self, level: float) -> Looks:
        """The same looks spending `level` in all, in the same proportions. A look too early for its
        share leaves it to the next; one more look is added where even the last is too early."""
        blocks, alphas, spare = [], [], 0.0
        for number, share in zip(self.blocks, self.alphas, strict=True):
            alpha = level * share / self.alpha + spare
            if alpha < 2.0**-number:
                spare = alpha
                continue
            blocks.append(number)
            alphas.append(alpha)
            spare = 0.0
        if spare > 0.0:
            needed = math.ceil(-math.log2(spare))
            blocks.append(max(needed, self.blocks[-1] + 4))
            alphas.append(spare)
        return replace(self, blocks=tuple(blocks), alphas=tuple(alphas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval."""

    value: float
    """Hodges-Lehmann estimate: the median of all pairwise means."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""

    def to_json(self) -> dict[str, float]:
        """For evidence."""
        return {"value": self.value, "low": self.low, "high": self.high}


class Interval(Protocol):
    """Makes an estimate of a centre with its interval."""

    def __call__(
        self, log_ratios: Sequence[float] | Floats, /, *, confidence: float = 0.95
    ) -> Estimate:
        """Of the blocks so far."""
        ...


def hodges_lehmann(values: Sequence[float] | Floats) -> float:
    """Median of the means of all pairs of values, each with itself too."""
    return float(np.median(pair_means(np.asarray(values, dtype=np.float64))))


def estimate(values: Sequence[float] | Floats, *, confidence: float = 0.95) -> Estimate:
    """The centre of paired differences with a two-sided interval.

    Below eight values the interval is that of the signed-rank test over all flips of sign; above,
    a BCa bootstrap. Fewer than six values cannot give 95 %: the interval is then their range.
    """
    held = np.asarray(values, dtype=np.float64)
    if held.size == 0 or not np.isfinite(held).all():
        raise ValueError(f"{held.size} values, all of them must be finite")
    centre = hodges_lehmann(held)
    if held.size < EXACT_BELOW:
        low, high = _signed_rank_interval(held, 1.0 - confidence)
    else:
        low, high = _bootstrap_interval(held, confidence)
    return Estimate(value=centre, low=min(low, centre), high=max(high, centre))


def chance_of_sign_flips(values: Sequence[float] | Floats, *, shift: float = 0.0) -> float:
    """One-sided exact p of the signed-rank test that the centre is above `shift`."""
    held = np.asarray(values, dtype=np.float64) - shift
    ranks = stats.rankdata(np.abs(held))
    # A difference of nothing speaks for neither side: it counts against.
    reached = float(ranks[held > 0].sum())
    if held.size > 20:
        return float(stats.wilcoxon(held, alternative="greater").pvalue)
    sums = np.zeros(1)
    for rank in ranks:
        sums = np.concatenate([sums, sums + rank])
    return float(np.mean(sums >= reached - 1e-9))


def chance_of_batch_means(values: Sequence[float] | Floats, batch: int) -> float:
    """One-sided p of Student's t that the centre is above nothing, from means of `batch`
    neighbouring values each: neighbours that are alike count as less than they are many.

    The first values are left out if they fill no batch. 1.0 for fewer than two batches.

    Source: Conway 1963, batch means of a stationary series.
    """
    held = np.asarray(values, dtype=np.float64)
    count = held.size // batch
    if count < 2:
        return 1.0
    means = held[held.size - count * batch :].reshape(count, batch).mean(axis=1)
    error = float(means.std(ddof=1)) / math.sqrt(count)
    if error == 0.0:
        return 0.0 if means[0] > 0.0 else 1.0
    return float(stats.t.sf(float(means.mean()) / error, count - 1))


def holm(chances: Sequence[float]) -> list[float]:
    """Chances of several tests, adjusted so that the smallest of them may be believed.

    Source: Holm 1979; by `scipy.stats` there is only Benjamini-Hochberg.
    """
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    adjusted = [0.0] * len(chances)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - rank) * chances[place]))
        adjusted[place] = highest
    return adjusted


def decide(
    log_ratios: Sequence[float],
    looks: Looks,
    *,
    smallest_effect: float,
    interval: Interval = estimate,
) -> Decision:
    """What the blocks so far allow to say of a candidate; positive ratios are better.

    `better` needs the exact test, the test of batch means and, from eight blocks on, the bootstrap
    to say so at this look's error rate, and an estimate of at least the smallest effect (a log
    ratio); a leap needs three blocks that are all beyond what noise can do. `not_better` is a
    candidate that will hardly get there, or did not by the last look: giving up early costs no
    error rate. `interval` makes the interval that both look at.
    """
    count = len(log_ratios)
    if count == looks.overwhelming_after and min(log_ratios) >= looks.overwhelming:
        return "better"
    if count not in looks.blocks:
        is_hopeless = (
            looks.hopeless_after <= count < looks.blocks[0] and max(log_ratios) < -smallest_effect
        )
        is_given_up = count in looks.futile_at and _is_futile(
            interval(log_ratios, confidence=FUTILITY_CONFIDENCE), smallest_effect
        )
        return "not_better" if is_hopeless or is_given_up else "go_on"
    alpha = looks.alphas[looks.blocks.index(count)]
    found = interval(log_ratios, confidence=1.0 - 2.0 * alpha)
    is_sure = chance_of_sign_flips(log_ratios) <= alpha
    if looks.batch_blocks > 1:
        is_sure = is_sure and chance_of_batch_means(log_ratios, looks.batch_blocks) <= alpha
    if count >= EXACT_BELOW:
        is_sure = is_sure and found.low > 0.0
    if is_sure and found.value >= smallest_effect:
        return "better"
    is_last = count == looks.blocks[-1]
    return "not_better" if is_last or _is_futile(found, smallest_effect) else "go_on"


def _is_futile(found: Estimate, smallest_effect: float) -> bool:
    """Whether it will hardly get to the smallest effect."""
    return found.high < smallest_effect or found.value < 0.5 * smallest_effect


def pair_means(values: Floats) -> Floats:
    """Means of all pairs along the last axis, each value with itself too."""
    first, second = _pairs(values.shape[-1])
    means: Floats = 0.5 * (values[..., first] + values[..., second])
    return means


@cache
def _pairs(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    pairs = np.array(list(itertools.combinations_with_replacement(range(count), 2)))
    return pairs[:, 0], pairs[:, 1]


def _signed_rank_interval(values: Floats, alpha: float) -> tuple[float, float]:
    means = np.sort(pair_means(values))
    sums = np.zeros(1)
    for rank in range(1, values.size + 1):
        sums = np.concatenate([sums, sums + rank])
    # The largest number of pairwise means that may be cut from each end.
    cut = 0
    while cut < len(means) // 2 and np.mean(sums <= cut) <= alpha / 2.0:
        cut += 1
    cut = max(cut - 1, 0)
    return float(means[cut]), float(means[-1 - cut])


def _bootstrap_interval(values: Floats, confidence: float) -> tuple[float, float]:
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])

    def centre(sample: Floats, axis: int = -1) -> Floats:
        means = pair_means(np.moveaxis(sample, axis, -1))
        medians: Floats = np.median(means, axis=-1)
        return medians

    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        # Said again by the ends, which are not finite then.
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        interval = stats.bootstrap(
            (values,),
            centre,
            confidence_level=confidence,
            n_resamples=_DRAWS,
            batch=1_000,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
    low, high = float(interval.low), float(interval.high)
    if not (np.isfinite(low) and np.isfinite(high)):
        # BCa has no answer when leaving out any one value changes nothing; the exact one does.
        return _signed_rank_interval(values, 1.0 - confidence)
    return low, high
