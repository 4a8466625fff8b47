"""What an engine says that it ran, against what was on trial."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from enginewright.evaluation.engagement import check_engagement
from enginewright.evaluation.passes import Engagement

CACHE = {"dtype": "f16", "layout": "position_major", "capacity": 64, "slots": 2}


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    plan = {
        "pool": {"spin_microseconds": 50, "pin": True},
        "memory": {"huge_pages": False},
        "cache": CACHE,
        "numerics": ["cache_f16"],
        "steps": {
            "prefill": {"groups": [{"object": "aa", "kernel": "fast"}]},
            "decode": {"groups": [{"object": "bb", "kernel": "faster"}]},
        },
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "graph.json").write_text("{}")
    return tmp_path


def told(engine: Path, calls: dict[str, int], **changes: Any) -> dict[str, Any]:
    facts = {
        "plan": hashlib.sha256((engine / "plan.json").read_bytes()).hexdigest(),
        "graph": hashlib.sha256(b"{}").hexdigest(),
        "device": "cpu",
        "spin_microseconds": 50,
        "pin": True,
        "huge_pages": False,
        "cache": CACHE,
        "numerics": ["cache_f16"],
        "prefix_cache": False,
        "calls": calls,
    }
    return facts | changes


def seen(engine: Path, after: dict[str, int], **changes: Any) -> Engagement:
    return Engagement(before=told(engine, {"aa": 1}), after=told(engine, after, **changes))


def test_the_plan_in_force_with_every_kernel_called_is_engaged(engine: Path) -> None:
    finding = check_engagement(engine, seen(engine, {"aa": 3, "bb": 60}))
    assert finding.has_passed
    assert finding.checked == 11


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"plan": "0" * 64}, "runs plan 000000000000"),
        ({"graph": "1" * 64}, "runs graph 111111111111"),
        ({"pin": False}, "pin is False in the engine; the plan says True"),
        ({"huge_pages": True}, "huge_pages is True"),
        ({"cache": CACHE | {"dtype": "f32"}}, "cache is"),
        ({"spin_microseconds": None}, "spin_microseconds is None"),
    ],
)
def test_a_setting_that_never_reached_the_engine_is_named(
    engine: Path, changes: dict[str, Any], says: str
) -> None:
    finding = check_engagement(engine, seen(engine, {"aa": 3, "bb": 60}, **changes))
    assert finding.rejected == "not_engaged"
    assert says in finding.detail


@pytest.mark.parametrize("after", [{"aa": 3}, {"aa": 1, "bb": 60}, {"aa": 3, "bb": 0}, {}])
def test_a_kernel_that_was_not_called_while_it_was_timed_is_named(
    engine: Path, after: dict[str, int]
) -> None:
    finding = check_engagement(engine, seen(engine, after))
    assert finding.rejected == "not_engaged"
    assert "was not called" in finding.detail


def test_calls_that_are_no_numbers_are_no_calls(engine: Path) -> None:
    facts = told(engine, {})
    finding = check_engagement(
        engine, Engagement(before=facts, after=facts | {"calls": {"aa": "many", "bb": True}})
    )
    assert finding.rejected == "not_engaged"


def test_an_engine_that_says_nothing_was_not_checked(engine: Path) -> None:
    assert check_engagement(engine, None).void == "unchecked"


def test_other_servers_are_not_asked() -> None:
    assert check_engagement(None, None).has_passed
