"""How sure the judge is: exact where it can be, never surer than the blocks allow."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from enginewright.evaluation.statistics import (
    Looks,
    chance_of_batch_means,
    chance_of_sign_flips,
    decide,
    estimate,
    hodges_lehmann,
)

LOOKS = Looks()
finite = st.floats(-1.0, 1.0, allow_nan=False, width=32)


def run_to_the_end(draw, looks: Looks = LOOKS) -> str:
    ratios: list[float] = []
    while True:
        ratios.append(float(draw()))
        decision = decide(ratios, looks, smallest_effect=0.005)
        if decision != "go_on":
            return decision
        assert len(ratios) < looks.blocks[-1]


def test_six_blocks_all_better_are_the_least_that_promote() -> None:
    ratios = [0.02, 0.03, 0.025, 0.018, 0.022, 0.028]
    for count in range(1, 6):
        assert decide(ratios[:count], LOOKS, smallest_effect=0.005) == "go_on"
    assert decide(ratios, LOOKS, smallest_effect=0.005) == "better"


def test_one_block_of_six_that_is_worse_is_not_enough() -> None:
    assert decide([0.02, 0.03, -0.001, 0.018, 0.022, 0.028], LOOKS, smallest_effect=0.005) != (
        "better"
    )


def test_a_real_but_tiny_effect_is_not_worth_keeping() -> None:
    ratios = [0.001 + 0.00001 * number for number in range(6)]
    assert decide(ratios, LOOKS, smallest_effect=0.005) == "not_better"


def test_what_is_slower_in_three_blocks_is_given_up() -> None:
    assert decide([-0.1, -0.2, -0.1], LOOKS, smallest_effect=0.005) == "not_better"
    assert decide([-0.1, 0.001, -0.1], LOOKS, smallest_effect=0.005) == "go_on"


def test_the_last_look_always_decides() -> None:
    ratios = [0.02 * (-1) ** number for number in range(14)]
    assert decide(ratios, LOOKS, smallest_effect=0.005) == "not_better"


@pytest.mark.parametrize("heavy", [False, True])
def test_clones_are_kept_no_more_often_than_the_error_rate_says(heavy: bool) -> None:
    rng = np.random.default_rng(5)

    def draw() -> float:
        return 0.02 * (rng.standard_t(3) if heavy else rng.normal())

    trials = 200
    kept = sum(run_to_the_end(draw) == "better" for _ in range(trials))
    # 5 % by design; beyond 10 % of 200 has a chance below one in five hundred.
    assert kept <= 0.10 * trials


def test_a_speed_up_three_times_the_noise_is_found() -> None:
    rng = np.random.default_rng(6)
    found = sum(run_to_the_end(lambda: rng.normal(0.03, 0.01)) == "better" for _ in range(40))
    assert found >= 36


def test_looks_that_cannot_reach_their_error_rate_are_refused() -> None:
    with pytest.raises(ValueError, match="5 blocks cannot reach"):
        Looks(blocks=(5,), alphas=(0.01,))
    with pytest.raises(ValueError, match="looks at"):
        Looks(blocks=(8, 6), alphas=(0.02, 0.02))


def test_the_chance_is_counted_over_all_flips_of_sign() -> None:
    values = [0.3, -0.1, 0.2, 0.5]
    ranks = [3, 1, 2, 4]
    reached = 3 + 2 + 4
    sums = [
        sum(rank for rank, is_up in zip(ranks, flips, strict=True) if is_up)
        for flips in itertools.product([False, True], repeat=4)
    ]
    expected = sum(held >= reached for held in sums) / 16
    assert chance_of_sign_flips(values) == pytest.approx(expected)


def test_no_difference_at_all_is_no_evidence() -> None:
    assert chance_of_sign_flips([0.0] * 6) == 1.0
    found = estimate([0.0] * 10)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_one_wild_block_does_not_move_the_estimate_far() -> None:
    calm = [0.01, 0.012, 0.011, 0.009, 0.010, 0.013, 0.011]
    assert abs(hodges_lehmann([*calm, 5.0]) - hodges_lehmann(calm)) < 0.002


@settings(max_examples=25, deadline=None)
@given(st.lists(finite, min_size=1, max_size=14), st.floats(-2.0, 2.0, width=32))
def test_an_interval_holds_its_estimate_and_moves_with_the_values(
    values: list[float], shift: float
) -> None:
    found = estimate(values)
    assert found.low <= found.value <= found.high
    assert min(values) - 1e-9 <= found.low
    assert found.high <= max(values) + 1e-9
    moved = estimate([value + shift for value in values])
    assert moved.value == pytest.approx(found.value + shift, abs=1e-6)


@pytest.mark.parametrize("blocks", [6, 12])
def test_intervals_hold_the_truth_about_as_often_as_they_say(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    trials = 100
    inside = 0
    for _ in range(trials):
        found = estimate(rng.normal(0.1, 0.05, size=blocks))
        inside += found.low <= 0.1 <= found.high
    assert inside >= 0.86 * trials


def test_nothing_and_infinity_are_refused() -> None:
    with pytest.raises(ValueError, match="0 values"):
        estimate([])
    with pytest.raises(ValueError, match="finite"):
        estimate([0.1, float("nan")])


def test_a_leap_needs_three_blocks_that_are_all_beyond_noise() -> None:
    looks = Looks()
    leap = [math.log(3.0), math.log(2.8), math.log(3.2)]
    assert decide(leap, looks, smallest_effect=0.005) == "better"
    assert decide(leap[:2], looks, smallest_effect=0.005) == "go_on"
    assert decide([*leap[:2], math.log(1.4)], looks, smallest_effect=0.005) == "go_on"


@pytest.mark.parametrize("level", [0.05, 0.02, 0.004, 0.0005, 0.00002])
def test_looks_spend_the_level_they_are_given_and_can_reach_it(level: float) -> None:
    looks = Looks().at_level(level)
    assert looks.alpha == pytest.approx(level)
    assert all(
        alpha >= 2.0**-blocks for blocks, alpha in zip(looks.blocks, looks.alphas, strict=True)
    )


def test_batch_means_count_neighbours_that_are_alike_as_fewer() -> None:
    apart = [0.02, -0.01, 0.02, -0.01, 0.02, -0.01, 0.02, -0.01, 0.02, -0.01]
    alike = sorted(apart)
    assert chance_of_batch_means(apart, 2) < 0.001
    assert chance_of_batch_means(alike, 2) > 0.1
    # The first value fills no batch.
    assert chance_of_batch_means([9.0, *alike], 2) == chance_of_batch_means(alike, 2)
    by_hand = stats.ttest_1samp([0.01, 0.02, 0.06], 0.0, alternative="greater").pvalue
    found = chance_of_batch_means([0.0, 0.02, 0.01, 0.03, 0.05, 0.07], 2)
    assert found == pytest.approx(float(by_hand))


def test_batches_too_few_or_without_spread_are_decided_all_the_same() -> None:
    assert chance_of_batch_means([0.1, 0.1, 0.1], 2) == 1.0
    assert chance_of_batch_means([0.1] * 4, 2) == 0.0
    assert chance_of_batch_means([0.0] * 4, 2) == 1.0
    with pytest.raises(ValueError, match="batch_blocks is 0"):
        Looks(batch_blocks=0)


def false_promotions(looks: Looks, trials: int) -> int:
    """Clones kept on noise whose neighbours correlate by 0.4."""
    rng = np.random.default_rng(11)
    kept = 0
    for _ in range(trials):
        noise = rng.normal(0.0, 0.01, 15)
        for place in range(1, 15):
            noise[place] = 0.4 * noise[place - 1] + math.sqrt(1 - 0.16) * noise[place]
        series = iter(noise[1:])
        kept += run_to_the_end(lambda series=series: next(series), looks) == "better"
    return kept


def test_neighbours_that_are_alike_do_not_make_clones_into_winners() -> None:
    trials = 150
    assert false_promotions(Looks(), trials) <= 0.07 * trials
    # Without batches the exact test takes every block for a witness of its own.
    assert false_promotions(Looks(batch_blocks=1), trials) > false_promotions(Looks(), trials)


def test_an_effect_of_five_per_cent_costs_no_block_more_than_without_batches() -> None:
    rng = np.random.default_rng(12)
    draws = rng.normal(0.05, 0.01, (20, 14))

    def blocks_needed(looks: Looks) -> int:
        total = 0
        for row in draws:
            for count in range(1, 15):
                if decide(list(row[:count]), looks, smallest_effect=0.005) == "better":
                    total += count
                    break
        return total

    assert blocks_needed(Looks()) <= 1.3 * blocks_needed(Looks(batch_blocks=1))
