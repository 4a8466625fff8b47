"""Many candidates, one error rate: how much each trial of a campaign may spend.

A campaign of thirty clones, each judged at 5 %, promotes one or two of them. Here the level of each
trial follows from how many came before and how many of those were promotions, so that over the
whole campaign the expected share of false promotions among promotions stays below alpha; in a
campaign of nothing but clones that is the chance of any promotion at all.

Source: Ramdas, Yang, Wainwright, Jordan 2017 (LORD++), with weights that fall as 1 / k^1.6: early
trials of a campaign are few and matter most.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

CAMPAIGN_ALPHA = 0.05
"""Bound on the share of false promotions of a campaign."""
_EXPONENT = 1.6
_TERMS = 100_000


@cache
def _total() -> float:
    return float(sum(k**-_EXPONENT for k in range(1, _TERMS + 1)))


def weight(place: int) -> float:
    """Share of a wealth that the test `place` tests after it was earned may spend. All sum to 1."""
    return float(place**-_EXPONENT) / _total() if place >= 1 else 0.0


def next_level(promoted: Sequence[bool], *, alpha: float = CAMPAIGN_ALPHA) -> float:
    """Level of the next trial, given which of the trials so far were promotions.

    Every trial that was decided counts, whoever proposed it and whatever became of it; one that
    was void measured nothing and is not among them.
    """
    number = len(promoted) + 1
    earned = [place for place, is_promotion in enumerate(promoted, start=1) if is_promotion]
    first_wealth = alpha / 2.0
    level = first_wealth * weight(number)
    for order, place in enumerate(earned):
        gain = alpha - first_wealth if order == 0 else alpha
        level += gain * weight(number - place)
    return level
