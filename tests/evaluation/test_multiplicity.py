"""The error rate of a whole campaign."""

from __future__ import annotations

import numpy as np
import pytest

from enginewright.evaluation.multiplicity import CAMPAIGN_ALPHA, next_level, weight


def promotes(level_of: object, rng: np.random.Generator, trials: int) -> bool:
    """Whether a campaign of clones promotes any, when a clone passes a trial exactly as often as
    the trial's level says."""
    promoted: list[bool] = []
    for _ in range(trials):
        promoted.append(bool(rng.random() < level_of(promoted)))  # type: ignore[operator]
    return any(promoted)


def test_campaigns_of_clones_promote_no_more_often_than_stated() -> None:
    rng = np.random.default_rng(7)
    rate = np.mean([promotes(next_level, rng, 30) for _ in range(4000)])
    assert rate <= CAMPAIGN_ALPHA


def test_a_fixed_level_for_each_trial_would_not_do() -> None:
    rng = np.random.default_rng(7)
    rate = np.mean([promotes(lambda _: CAMPAIGN_ALPHA, rng, 30) for _ in range(400)])
    assert rate > 0.5


def test_the_first_trials_of_nothing_but_clones_spend_half_of_the_rate_at_most() -> None:
    spent = sum(next_level([False] * done) for done in range(500))
    assert spent <= CAMPAIGN_ALPHA / 2


def test_a_promotion_earns_level_for_those_after_it() -> None:
    assert next_level([True]) > next_level([False])
    assert next_level([True, False, False]) > next_level([False, False, False])
    assert next_level([True, True]) > next_level([True, False])


def test_weights_fall_and_there_is_none_before_a_promotion() -> None:
    assert weight(0) == 0.0
    assert all(weight(place) > weight(place + 1) > 0 for place in range(1, 50))
    assert sum(weight(place) for place in range(1, 5000)) == pytest.approx(1.0, abs=0.02)
