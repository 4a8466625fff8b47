"""Trials of engines that are good, slow or bad: each must end in the right verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from judge_fakes import SETTINGS, JobMaker, fake_arm

from enginewright.evaluation.trial import run_trial
from enginewright.evaluation.verdict import Kept, Rejected, Void, headline, verdict_to_json


def test_a_faster_engine_is_kept_with_figures_and_evidence(decoder_job: JobMaker) -> None:
    verdict = run_trial(decoder_job(fake_arm("candidate")))
    assert isinstance(verdict, Kept), headline(verdict)
    assert verdict.comparison.blocks == 6
    assert 1.0 < verdict.comparison.low <= verdict.comparison.speedup <= verdict.comparison.high
    assert set(verdict.comparison.by_scenario) == {"short", "long"}
    assert len(verdict.measurements["candidate"]["short.ttft_ms"]) == 6
    assert {"peak_memory_mib", "start_seconds", "floor_share"} <= verdict.measurements[
        "champion"
    ].keys()
    orders = [block["order"][0] for block in verdict.evidence["blocks"]]
    assert orders == ["champion", "candidate"] * 3
    assert {gate for gate, held in verdict.evidence["gates"].items() if held["checked"]} == {
        "answers",
        "audit",
        "client",
        "physics",
        "texts",
        "together",
    }
    assert set(verdict.evidence["audit"]["scenarios"]) == {"short", "long"}
    again = json.loads(json.dumps(verdict_to_json(verdict)))
    assert again["verdict"] == "kept"
    assert again["evidence"]["seed"] == verdict.evidence["seed"]


def test_no_prompt_is_used_in_two_blocks(decoder_job: JobMaker) -> None:
    verdict = run_trial(decoder_job(fake_arm("candidate", prompt_seconds=0.3)))
    assert isinstance(verdict, Rejected)
    emitted = [
        tuple(answer["token_ids"])
        for block in verdict.evidence["blocks"]
        for answer in block["passes"]["champion"]["answers"]
    ]
    assert len(emitted) == 9
    assert len(set(emitted)) == len(emitted)


def test_a_slower_engine_is_rejected_as_slower_before_the_last_look(decoder_job: JobMaker) -> None:
    verdict = run_trial(decoder_job(fake_arm("candidate", prompt_seconds=0.5)))
    assert isinstance(verdict, Rejected), headline(verdict)
    assert verdict.reason == "slower"
    assert verdict.comparison is not None
    assert verdict.comparison.high < 1.0
    assert verdict.comparison.blocks == SETTINGS.looks.hopeless_after


@pytest.mark.parametrize(
    ("behaviour", "reason", "says"),
    [
        ("wrong", "wrong", "regret"),
        ("repeats", "wrong", "regret"),
        ("early", "incomplete", "3 of 6 tokens"),
        ("drops", "incomplete", "5 of 6 tokens"),
        ("bursts", "incomplete", "one piece"),
        ("batch_dependent", "inconsistent", "differs"),
        ("hangs", "timed_out", "no end within 2 s"),
        ("dies", "died", "exit code 3"),
        ("errors", "refused", "out of paper"),
        ("no_start", "not_started", "no such luck"),
    ],
)
def test_a_bad_engine_is_rejected_for_what_is_wrong_with_it(
    decoder_job: JobMaker, behaviour: str, reason: str, says: str
) -> None:
    settings = replace(SETTINGS, request_timeout_seconds=2.0)
    verdict = run_trial(decoder_job(fake_arm("candidate", behaviour), settings=settings))
    assert isinstance(verdict, Rejected), headline(verdict)
    assert (verdict.reason, verdict.comparison) == (reason, None)
    assert says in verdict.detail
    json.dumps(verdict_to_json(verdict), allow_nan=False)


def test_an_engine_that_is_never_ready_is_rejected(decoder_job: JobMaker) -> None:
    slow = replace(fake_arm("candidate", start_seconds=60.0), timeout_seconds=0.5)
    verdict = run_trial(decoder_job(slow))
    assert isinstance(verdict, Rejected)
    assert verdict.reason == "not_started"
    assert "not ready in time" in verdict.detail


def test_two_arms_with_one_fingerprint_are_void(decoder_job: JobMaker) -> None:
    job = decoder_job(fake_arm("candidate"))
    verdict = run_trial(replace(job, champion=job.candidate))
    assert isinstance(verdict, Void)
    assert verdict.reason == "same_engine"


def test_a_champion_that_fails_makes_the_trial_void(decoder_job: JobMaker) -> None:
    verdict = run_trial(decoder_job(fake_arm("candidate"), champion=fake_arm("champion", "dies")))
    assert isinstance(verdict, Void)
    assert verdict.reason == "champion_failed"


def test_faster_than_memory_allows_is_void(decoder_job: JobMaker) -> None:
    job = decoder_job(fake_arm("candidate"))
    slow_memory = replace(job.machine, read_bandwidth={1: 1e3})
    verdict = run_trial(replace(job, machine=slow_memory))
    assert isinstance(verdict, Void)
    assert verdict.reason == "physics"
    assert "at least" in verdict.detail


def test_a_disturbed_machine_makes_the_trial_void_after_some_repeats(decoder_job: JobMaker) -> None:
    settings = replace(SETTINGS, other_share_limit=-1.0, repeated_blocks=1)
    verdict = run_trial(decoder_job(fake_arm("candidate"), settings=settings))
    assert isinstance(verdict, Void)
    assert verdict.reason == "contended"
    assert len(verdict.evidence["blocks"]) == 2


def test_a_candidate_beyond_a_protected_limit_is_rejected(decoder_job: JobMaker) -> None:
    champion = fake_arm("champion", prompt_seconds=0.1)
    hungry = fake_arm("candidate", mebibytes=256)
    verdict = run_trial(decoder_job(hungry, champion=champion, limits={"peak_memory_mib": 200}))
    assert isinstance(verdict, Rejected), headline(verdict)
    assert verdict.reason == "guard"
    assert "peak_memory_mib" in verdict.detail


def test_a_faster_encoder_is_kept(encoder_job: JobMaker) -> None:
    verdict = run_trial(encoder_job(fake_arm("candidate")))
    assert isinstance(verdict, Kept), headline(verdict)
    assert verdict.evidence["audit"]["cosine"] == pytest.approx(1.0)
    assert "one.texts_per_s" in verdict.measurements["candidate"]


@pytest.mark.parametrize("behaviour", ["wrong", "coarse", "nan"])
def test_wrong_embeddings_are_rejected(encoder_job: JobMaker, behaviour: str) -> None:
    verdict = run_trial(encoder_job(fake_arm("candidate", behaviour)))
    assert isinstance(verdict, Rejected), headline(verdict)
    assert verdict.reason == "wrong"
