"""The bar, the confirmation, and what the target's criteria say of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from judge_fakes import SETTINGS, fake_arm, make_target

from enginewright.errors import EngineError
from enginewright.evaluation.acceptance import best_values, judge_acceptance
from enginewright.evaluation.confirm import confirm
from enginewright.evaluation.engine_process import EngineArm
from enginewright.evaluation.floors import Floor, floor_values, step_read_bytes, target_floors
from enginewright.evaluation.measurement import Measured, MeasureJob, measure_arms
from enginewright.evaluation.metrics import speedup_log
from enginewright.evaluation.oracle import Oracle
from enginewright.model import Graph, decode_shape, step_cost
from enginewright.target import Machine, Target

SCENARIO = {"name": "short", "prompt_tokens": 40, "output_tokens": 6}


class Foreign(EngineArm):
    """A server that is not ours."""

    speaks_token_ids = False


@pytest.fixture
def job(
    decoder_graph: Graph, machine: Machine, oracle: Oracle, tokenizer_file: Path, tmp_path: Path
) -> MeasureJob:
    return MeasureJob(
        target=make_target(
            [SCENARIO],
            accept=[
                criterion("ttft_ms", "<=", 0.9, "naive"),
                criterion("peak_memory_mib", "<=", 1.0),
                criterion("ttft_ms", "<=", 0.5, "broken"),
                criterion("regret_nats", "<=", 0.05),
            ],
            baseline=[{"name": "broken", "url": "http://127.0.0.1:9"}],
        ),
        graph=decoder_graph,
        machine=machine,
        tokenizer=tokenizer_file,
        arms=(fake_arm("naive", prompt_seconds=0.2), fake_arm("champion")),
        blocks=2,
        work=tmp_path,
        oracle=oracle,
        settings=SETTINGS,
    )


def criterion(metric: str, comparison: str, value: float, against: str = "absolute") -> Any:
    return {"metric": metric, "comparison": comparison, "value": value, "against": against}


def test_a_confirmation_pairs_the_arms_and_judges_every_criterion(job: MeasureJob) -> None:
    found = confirm(replace(job, arms=(*job.arms, fake_arm("broken", "no_start"))))
    assert found.speedup.low > 1.0
    assert found.is_within_numerics
    faster, small, broken, right = found.acceptance
    assert faster.holds
    assert faster.unit == "x"
    assert faster.high is not None
    assert faster.high < 0.9
    assert not small.holds
    assert small.value is not None
    assert not broken.holds
    assert broken.value is None
    assert "no such luck" in (broken.why_not_measured or "")
    assert right.holds
    assert right.value == 0.0
    assert not found.is_accepted
    orders = [block["order"] for block in found.evidence["blocks"]]
    assert orders[0][:2] == ["naive", "champion"]


def test_a_champion_that_emits_other_tokens_is_not_within_the_numerics(job: MeasureJob) -> None:
    found = confirm(replace(job, arms=(job.arms[0], fake_arm("champion", "wrong")), blocks=1))
    assert not found.is_within_numerics
    assert "regret" in found.numerics_detail
    assert not found.acceptance[3].holds


def test_a_champion_that_is_the_naive_engine_is_measured_once(job: MeasureJob) -> None:
    naive = job.arms[0]
    found = confirm(replace(job, arms=(naive, replace(naive, name="champion")), blocks=1))
    assert (found.speedup.value, found.speedup.low, found.speedup.high) == (1.0, 1.0, 1.0)
    assert found.evidence["blocks"][0]["order"] == ["naive"]
    assert found.measured.metrics("champion") == found.measured.metrics("naive")


def test_a_champion_that_fails_is_an_error_with_its_reason(job: MeasureJob) -> None:
    with pytest.raises(EngineError, match=r"champion could not be measured.*exit code 7"):
        confirm(replace(job, arms=(job.arms[0], fake_arm("champion", "no_start")), blocks=1))


def test_one_arm_alone_gives_the_bar(job: MeasureJob) -> None:
    measured = measure_arms(replace(job, arms=job.arms[:1], oracle=None))
    held = measured.metrics("naive")
    assert held["short.ttft_ms"].unit == "ms"
    assert held["short.ttft_ms"].low <= held["short.ttft_ms"].value <= held["short.ttft_ms"].high
    assert held["ttft_ms"].value == pytest.approx(held["short.ttft_ms"].value)
    assert measured.disturbed_blocks == 0
    assert measured.metrics("nobody") == {}
    assert measured.ratio("ttft_ms", "naive", "nobody") is None


def test_a_server_that_ends_early_loses_the_pair_and_is_named(job: MeasureJob) -> None:
    peer = Foreign(**asdict(fake_arm("peer", "early")))
    measured = measure_arms(replace(job, arms=(job.arms[1], peer), oracle=None))
    assert "no whole answers" in measured.failed["peer"]
    assert measured.metrics("champion")


def test_a_disturbed_block_is_repeated_and_then_counted(job: MeasureJob) -> None:
    settings = replace(SETTINGS, other_share_limit=-1.0, repeated_blocks=1)
    measured = measure_arms(replace(job, arms=job.arms[1:], blocks=1, settings=settings))
    assert measured.disturbed_blocks == 1
    assert len(measured.evidence["blocks"]) == 2


def made_up(target: Target, samples: dict[str, list[dict[str, float]]]) -> Measured:
    return Measured(
        target=target,
        samples={arm: dict(enumerate(blocks)) for arm, blocks in samples.items()},
        failed={},
        audits={},
        disturbed_blocks=0,
        evidence={},
    )


def test_a_criterion_holds_only_if_its_whole_interval_does() -> None:
    target = make_target([SCENARIO], accept=[criterion("decode_tokens_per_s", ">=", 100.0)])
    floors = {"short": Floor(first_seconds=0.01, decode_seconds=0.001, output_tokens=6)}
    sure = made_up(target, {"champion": [{"decode_tokens_per_s": 101.0 + n} for n in range(6)]})
    unsure = made_up(
        target, {"champion": [{"decode_tokens_per_s": 90.0 + 10 * n} for n in range(6)]}
    )
    assert judge_acceptance(target, sure, floors, champion="champion")[0].holds
    result = judge_acceptance(target, unsure, floors, champion="champion")[0]
    assert result.value is not None
    assert result.value > 100.0
    assert not result.holds


def test_shares_of_the_floor_rise_with_speed_whichever_way_the_metric_is() -> None:
    target = make_target(
        [SCENARIO],
        accept=[
            criterion("decode_tokens_per_s", ">=", 0.4, "floor"),
            criterion("short.request_ms", ">=", 0.4, "floor"),
        ],
    )
    floors = {"short": Floor(first_seconds=0.01, decode_seconds=0.002, output_tokens=6)}
    measured = made_up(
        target, {"champion": [{"decode_tokens_per_s": 250.0, "short.request_ms": 40.0}] * 6}
    )
    decode, request = judge_acceptance(target, measured, floors, champion="champion")
    assert decode.value == pytest.approx(0.5)
    assert request.value == pytest.approx(0.5)
    assert decode.holds
    assert request.holds
    assert decode.unit == request.unit == "share"


def test_floors_are_what_memory_and_arithmetic_allow(
    decoder_graph: Graph, decoder_target: Target, machine: Machine
) -> None:
    floors = target_floors(decoder_graph, decoder_target, machine)
    half = replace(machine, read_bandwidth={1: 0.5e12})
    slower = target_floors(decoder_graph, decoder_target, half)
    for name, floor in floors.items():
        assert slower[name].decode_seconds == pytest.approx(2.0 * floor.decode_seconds)
        assert floor.request_seconds > floor.first_seconds
    cached = target_floors(decoder_graph, decoder_target, machine, cached_bytes=1 << 40)
    assert all(floor.decode_seconds < floors[name].decode_seconds for name, floor in cached.items())
    best = best_values(decoder_target, floors)
    short = decoder_target.workload.scenario[0]
    alone = floor_values(floors["short"], short)
    assert best["short.ttft_ms"] == pytest.approx(alone["ttft_ms"])
    assert best["long.ttft_ms"] > best["ttft_ms"] > best["short.ttft_ms"]


def test_faster_is_positive_whichever_way_the_metric_is() -> None:
    assert speedup_log("chat.ttft_ms", 10.0, 5.0) > 0
    assert speedup_log("decode_tokens_per_s", 10.0, 5.0) < 0


def test_the_floor_is_read_over_what_the_smallest_step_reads(
    decoder_graph: Graph, decoder_target: Target
) -> None:
    read = step_read_bytes(decoder_graph, decoder_target)
    least = min(scenario.prompt_tokens for scenario in decoder_target.workload.scenario)
    assert read == step_cost(decoder_graph, decode_shape(least)).bytes
