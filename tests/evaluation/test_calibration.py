"""The champion against itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judge_fakes import JobMaker, fake_arm

from enginewright.evaluation.calibration import calibrate, calibration_of, detectable_effect
from enginewright.evaluation.statistics import Looks, decide


def noise(sd: float, blocks: int, seed: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(seed).normal(0.0, sd, blocks)]


def test_quiet_blocks_hold_one_and_show_small_effects() -> None:
    found = calibration_of(noise(0.002, 12, 1), Looks())
    assert found.holds_one
    assert found.detectable < 0.005


def test_a_slot_that_is_favoured_does_not_hold_one() -> None:
    found = calibration_of([0.02 + value for value in noise(0.002, 12, 2)], Looks())
    assert not found.holds_one
    assert found.low > 1.0


def test_drift_shows_as_autocorrelation() -> None:
    assert calibration_of([0.001 * block for block in range(12)], Looks()).autocorrelation > 0.5
    assert calibration_of([0.01, -0.01] * 6, Looks()).autocorrelation < -0.5


def test_the_detectable_effect_is_seen_as_often_as_promised() -> None:
    looks, sd = Looks(), 0.01
    effect = detectable_effect(sd, looks)
    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(200):
        values = rng.normal(math.log1p(effect), sd, looks.blocks[-1])
        decisions = [
            decide([float(value) for value in values[:count]], looks, smallest_effect=0.0)
            for count in looks.blocks
        ]
        seen += "better" in decisions
    assert 0.75 <= seen / 200 <= 1.0


def test_too_few_blocks_are_no_calibration() -> None:
    with pytest.raises(ValueError, match="3 or more"):
        calibration_of([0.0, 0.1], Looks())


def test_an_engine_is_measured_against_itself(decoder_job: JobMaker) -> None:
    found = calibrate(decoder_job(fake_arm("champion")), 3)
    assert len(found.log_ratios) == 3
    # The fake sleeps for its tokens: blocks agree within what a busy machine does to sleeps.
    assert 0.5 < found.low <= found.high < 2.0
