"""The interval that knows what is inside the blocks."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from judge_fakes import JobMaker, fake_arm

from enginewright.evaluation.hierarchical import Hierarchical, Samples, interval_of
from enginewright.evaluation.judge_settings import (
    JudgeSettings,
    settings_from_json,
    settings_to_json,
)
from enginewright.evaluation.redecide import redecide
from enginewright.evaluation.statistics import estimate
from enginewright.evaluation.trial import run_trial
from enginewright.evaluation.verdict import verdict_to_json

TRUE = 0.03


def made_blocks(
    rng: np.random.Generator, count: int, *, between: float, within: float, heavy: bool = False
) -> list[Samples]:
    """Blocks of two scenarios of four and two requests; the true log ratio is `TRUE`."""
    blocks = []
    for _ in range(count):
        block = TRUE + between * (
            rng.standard_t(3) / math.sqrt(3.0) if heavy else rng.standard_normal()
        )
        blocks.append(tuple(tuple(block + within * rng.standard_normal(size)) for size in (4, 2)))
    return blocks


def log_ratios(blocks: list[Samples]) -> list[float]:
    return [float(np.mean([np.mean(samples) for samples in block])) for block in blocks]


@pytest.mark.parametrize(
    ("count", "between", "within", "heavy"),
    [(8, 0.01, 0.02, False), (10, 0.01, 0.0, False), (10, 0.01, 0.01, True)],
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(
    count: int, between: float, within: float, heavy: bool
) -> None:
    rng = np.random.default_rng(count)
    trials, inside = 80, 0
    for _ in range(trials):
        blocks = made_blocks(rng, count, between=between, within=within, heavy=heavy)
        found = Hierarchical(blocks=tuple(blocks))(log_ratios(blocks))
        inside += found.low <= TRUE <= found.high
    # Below 88 % of 80 at a true 95 % has a chance under one in a hundred.
    assert inside >= 0.88 * trials


def test_noise_of_requests_widens_the_interval_though_the_blocks_agree() -> None:
    quiet: list[Samples] = [((TRUE, TRUE, TRUE, TRUE),)] * 10
    loud: list[Samples] = [((TRUE - 0.1, TRUE + 0.1, TRUE - 0.1, TRUE + 0.1),)] * 10
    narrow, wide = (
        Hierarchical(blocks=tuple(blocks))(log_ratios(blocks)) for blocks in (quiet, loud)
    )
    assert narrow.high - narrow.low < 1e-9
    assert wide.low < TRUE - 0.02 and wide.high > TRUE + 0.02
    flat = estimate(log_ratios(loud))
    assert flat.high - flat.low < 1e-9


def test_the_same_samples_give_the_same_interval_and_more_confidence_a_wider_one() -> None:
    blocks = made_blocks(np.random.default_rng(1), 10, between=0.01, within=0.01)
    made = Hierarchical(blocks=tuple(blocks))
    again = Hierarchical(blocks=tuple(blocks))
    assert made(log_ratios(blocks)) == again(log_ratios(blocks))
    near, far = (made(log_ratios(blocks), confidence=held) for held in (0.9, 0.99))
    assert far.low < near.low <= near.value <= near.high < far.high


def test_few_blocks_are_left_to_the_exact_interval_and_too_many_ratios_are_refused() -> None:
    blocks = made_blocks(np.random.default_rng(2), 7, between=0.01, within=0.01)
    made = Hierarchical(blocks=tuple(blocks))
    assert made(log_ratios(blocks)) == estimate(log_ratios(blocks))
    with pytest.raises(ValueError, match="8 ratios of 7 blocks"):
        made([0.0] * 8)


def test_the_name_in_the_rules_chooses_the_interval() -> None:
    blocks = made_blocks(np.random.default_rng(3), 10, between=0.01, within=0.03)
    ratios = log_ratios(blocks)
    assert interval_of("blocks/1", blocks)(ratios) == estimate(ratios)
    assert interval_of("hierarchical/1", blocks)(ratios) != estimate(ratios)
    with pytest.raises(ValueError, match="interval is 'other'"):
        JudgeSettings(interval="other")  # type: ignore[arg-type]


def test_rules_that_older_evidence_does_not_name_are_those_of_its_time() -> None:
    held = settings_to_json(JudgeSettings())
    assert settings_from_json(held) == JudgeSettings()
    old = copy.deepcopy(held)
    del old["interval"], old["looks"]["batch_blocks"]
    read = settings_from_json(old)
    assert (read.interval, read.looks.batch_blocks) == ("blocks/1", 1)


def test_a_trial_says_which_interval_it_used_and_older_evidence_is_decided_as_it_was(
    decoder_job: JobMaker,
) -> None:
    held: dict[str, Any] = json.loads(
        json.dumps(verdict_to_json(run_trial(decoder_job(fake_arm("candidate")))))
    )
    assert held["verdict"] == "kept", held["headline"]
    settings = held["evidence"]["settings"]
    assert settings["interval"] == "hierarchical/1"
    assert redecide(held).verdict == "kept"
    # Ten blocks that agree, of requests that do not: the blocks alone are sure, those who look
    # inside are not.
    settings["looks"].update(blocks=[10], alphas=[0.02], futile_at=[10], hopeless_after=99)
    settings["physics_tolerance"] = 1e-9
    held["evidence"]["blocks"] = copy.deepcopy(held["evidence"]["blocks"][:5] * 2)
    for block in held["evidence"]["blocks"]:
        answers = block["passes"]["candidate"]["answers"]
        first, second = (answer for answer in answers if answer["scenario"] == "short")
        for answer, factor in ((first, math.exp(6.0)), (second, math.exp(-6.0))):
            answer["seconds"] *= factor
            answer["chunk_seconds"] = [factor * seconds for seconds in answer["chunk_seconds"]]
    assert redecide(held).verdict == "rejected: slower"
    del settings["interval"], settings["looks"]["batch_blocks"]
    old = redecide(held)
    assert (old.verdict, old.from_samples) == ("kept", True)
