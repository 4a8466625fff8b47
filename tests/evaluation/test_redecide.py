"""Verdicts again from their evidence."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from judge_fakes import JobMaker, fake_arm

from enginewright.evaluation.redecide import TOLERANCE, can_redecide, redecide, stored_verdict
from enginewright.evaluation.trial import run_trial
from enginewright.evaluation.verdict import verdict_to_json


def judged(job: Any) -> dict[str, Any]:
    """The evidence of a trial, as the archive keeps it."""
    held: dict[str, Any] = json.loads(json.dumps(verdict_to_json(run_trial(job))))
    assert can_redecide(held)
    return held


@pytest.fixture
def kept(decoder_job: JobMaker) -> dict[str, Any]:
    held = judged(decoder_job(fake_arm("candidate")))
    assert held["verdict"] == "kept", held["headline"]
    return held


def candidate_answers(held: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        answer
        for block in held["evidence"]["blocks"]
        for answer in block["passes"]["candidate"]["answers"]
    ]


def test_a_kept_candidate_is_kept_again_by_the_same_figure(kept: dict[str, Any]) -> None:
    again = redecide(kept)
    assert (again.verdict, again.from_samples) == ("kept", True)
    assert again.speedup is not None
    assert abs(math.log(again.speedup / kept["comparison"]["speedup"])) < TOLERANCE


def test_a_slower_one_is_rejected_again(decoder_job: JobMaker) -> None:
    held = judged(decoder_job(fake_arm("candidate", token_seconds=0.08)))
    assert stored_verdict(held) == "rejected: slower", held["headline"]
    again = redecide(held)
    assert (again.verdict, again.from_samples) == ("rejected: slower", True)


def test_samples_made_slower_afterwards_decide_otherwise(kept: dict[str, Any]) -> None:
    for answer in candidate_answers(kept):
        answer["seconds"] *= 20
        answer["chunk_seconds"] = [20 * seconds for seconds in answer["chunk_seconds"]]
    assert redecide(kept).verdict == "rejected: slower"


def test_samples_faster_than_the_machine_are_void(kept: dict[str, Any]) -> None:
    for floor in kept["evidence"]["floors"]["physics"].values():
        floor["first_seconds"] = 100.0
    assert redecide(kept).verdict == "void: physics"


def test_regret_beyond_the_bounds_is_wrong_whatever_was_said(kept: dict[str, Any]) -> None:
    kept["evidence"]["audit"]["regret_max_nats"] = 9.0
    assert redecide(kept).verdict == "rejected: wrong"


def test_an_audit_that_looked_at_nothing_is_void(kept: dict[str, Any]) -> None:
    kept["evidence"]["audit"].update(tokens=0, outputs=0, regret_max_nats=None, cosine=None)
    assert redecide(kept).verdict == "void: unchecked"


def test_a_protected_metric_beyond_its_limit_is_a_guard(kept: dict[str, Any]) -> None:
    held = copy.deepcopy(kept)
    held["evidence"]["limits"] = {"start_seconds": 1e-9}
    # The champion passes the limit too: that excuses the candidate.
    assert redecide(held).verdict == "kept"
    for block in held["evidence"]["blocks"]:
        block["passes"]["champion"]["start_seconds"] = 0.0
    assert redecide(held).verdict == "rejected: guard"


def test_a_machine_shared_with_others_is_void(kept: dict[str, Any]) -> None:
    kept["evidence"]["settings"].update(other_share_limit=-1.0, repeated_blocks=0)
    assert redecide(kept).verdict == "void: contended"


def test_two_arms_of_one_fingerprint_are_void(kept: dict[str, Any]) -> None:
    kept["evidence"]["arms"]["candidate"] = kept["evidence"]["arms"]["champion"]
    assert redecide(kept).verdict == "void: same_engine"


def test_an_end_without_samples_is_taken_from_the_record_and_said_to_be(
    decoder_job: JobMaker,
) -> None:
    held = judged(decoder_job(fake_arm("candidate", "dies")))
    again = redecide(held)
    assert again.verdict == stored_verdict(held) == "rejected: died"
    assert not again.from_samples


def test_evidence_of_an_older_judge_is_not_guessed_at(kept: dict[str, Any]) -> None:
    del kept["evidence"]["floors"]
    assert not can_redecide(kept)
