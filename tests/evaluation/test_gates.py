"""Gates and contention, without any server."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginewright.evaluation import contention
from enginewright.evaluation.audit import AuditReport, Output, check_audit, choose
from enginewright.evaluation.contention import Contention, CpuWindow
from enginewright.evaluation.gates import check_together, passed
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.load_records import Answer
from enginewright.evaluation.passes import Pass, rounds_for
from enginewright.target import Numerics


def answer(number: int, ids: tuple[int, ...], **changes: object) -> Answer:
    held = {
        "id": number,
        "scenario": "s",
        "phase": "timed",
        "stream": 0,
        "sent": 0.0,
        "ended": 1.0,
        "chunk_times": (0.5, 1.0),
        "chunk_tokens": (1, 1),
        "counted_by": "ids",
        "token_ids": ids,
        "text": "",
        "finish_reason": "length",
        "prompt_tokens": 4,
        "claimed_tokens": None,
        "completion_tokens": len(ids),
        "embeddings": None,
        "error_kind": None,
        "error": None,
    }
    return Answer(**{**held, **changes})  # type: ignore[arg-type]


def seen(answers: tuple[Answer, ...], together: tuple[Answer, ...]) -> Pass:
    return Pass(
        arm="a",
        start_seconds=0.1,
        memory=None,
        answers=answers,
        together=together,
        server_cpu_seconds=1.0,
        contention=Contention(seconds=1.0, other_share=0.0, steal_share=0.0),
        load_share=0.01,
        stopped=None,
    )


def test_fast_arms_are_sent_more_requests_up_to_a_limit() -> None:
    settings = JudgeSettings(pass_seconds=3.0, most_rounds=4)
    second = seen((answer(1, (1, 2)),), ())
    assert rounds_for([second], settings, rounds=1) == 3
    assert rounds_for([second], settings, rounds=3) == 4
    slow = seen((answer(1, (1, 2), ended=9.0),), ())
    assert rounds_for([second, slow], settings, rounds=1) == 1
    assert rounds_for([], settings, rounds=1) == 1


def test_a_gate_that_checked_nothing_has_failed() -> None:
    assert passed("any", 0).void == "unchecked"
    assert passed("any", 1).has_passed
    stranger = answer(9, (1, 2))
    assert check_together(seen((answer(1, (1, 2)),), (stranger,))).void == "unchecked"


def test_one_bit_of_an_embedding_that_differs_among_others_is_seen() -> None:
    alone = answer(1, (), token_ids=None, embeddings=((1.0, 0.0),))
    among = answer(1, (), token_ids=None, embeddings=((1.0, 5e-324),))
    assert check_together(seen((alone,), (alone,))).has_passed
    assert check_together(seen((alone,), (among,))).rejected == "inconsistent"


def test_the_first_token_that_differs_among_others_is_named() -> None:
    finding = check_together(seen((answer(1, (5, 6, 7)),), (answer(1, (5, 6, 8)),)))
    assert "token 2 differs" in finding.detail


def output(scenario: str, positions: int, differs: bool = False) -> Output:
    return Output(
        scenario=scenario,
        text="",
        prompt_ids=(0,) * (positions - 1),
        token_ids=(1,),
        embedding=None,
        differs=differs,
    )


def test_an_audit_takes_every_scenario_whatever_it_costs_and_what_differs_first() -> None:
    import random

    outputs = [output("long", 500) for _ in range(3)]
    outputs += [output("short", 10, differs=number < 2) for number in range(22)]
    chosen = choose(outputs, 540, random.Random(1))
    assert sum(held.scenario == "long" for held in chosen) == 1
    assert sum(held.differs for held in chosen) == 2
    assert sum(held.positions for held in chosen) <= 540
    assert {held.scenario for held in choose(outputs, 1, random.Random(1))} == {"long", "short"}


def report(**figures: float) -> AuditReport:
    held = {
        "regret_mean_nats": None,
        "regret_max_nats": None,
        "cosine": None,
        "embedding_error": None,
        **figures,
    }
    return AuditReport(outputs=1, tokens=3 if "regret_max_nats" in figures else 0,
                       scenarios={"s": 1}, **held)  # fmt: skip


@pytest.mark.parametrize(
    ("figures", "is_right"),
    [
        ({"regret_mean_nats": 0.004, "regret_max_nats": 0.05}, True),
        ({"regret_mean_nats": 0.004, "regret_max_nats": 0.051}, False),
        ({"regret_mean_nats": 0.006, "regret_max_nats": 0.05}, False),
        ({"regret_mean_nats": float("nan"), "regret_max_nats": 0.0}, False),
        ({"cosine": 0.99999, "embedding_error": 1e-4}, True),
        ({"cosine": 0.9999, "embedding_error": 1e-4}, False),
        ({"cosine": 1.0, "embedding_error": 1e-3}, False),
        ({"cosine": float("nan"), "embedding_error": 0.0}, False),
    ],
)
def test_outputs_beyond_a_bound_are_wrong(figures: dict[str, float], is_right: bool) -> None:
    assert check_audit(report(**figures), Numerics()).has_passed == is_right


def test_an_audit_of_nothing_has_failed() -> None:
    assert check_audit(report(), Numerics()).void == "unchecked"


def test_what_others_used_is_what_is_left_of_the_busy_time(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([(100.0, 5.0), (101.5, 5.5)])
    monkeypatch.setattr(contention, "_used_seconds", lambda cores: next(used))
    moments = iter([10.0, 11.0])
    monkeypatch.setattr(contention.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(contention.time, "thread_time", lambda: 3.0)
    monkeypatch.setattr(contention.os, "sched_getaffinity", lambda pid: {0, 1})
    found = CpuWindow().close(known_cpu_seconds=1.1)
    assert found.other_share == pytest.approx(0.4 / 2)
    assert found.steal_share == pytest.approx(0.5 / 2)


def test_processor_time_is_read_for_the_cores_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  999 9 9 9 9 9 9 9 0 0\n"
        "cpu0 100 10 20 5000 7 1 2 30 0 0\n"
        "cpu1 500 50 50 5000 7 1 2 30 0 0\n"
        "intr 5\n"
    )
    monkeypatch.setattr(contention, "Path", lambda name: stat)
    busy, steal = contention._used_seconds({0})
    ticks = contention._TICKS_PER_SECOND
    assert (busy, steal) == (133 / ticks, 30 / ticks)
