"""The shortlist: rivals and the champion without its steps, measured once more."""

import math

import pytest
from replay import Killed, Place, Replay, Spins

from enginewright.retention import Archive
from enginewright.swarm.loop import Options, build_engine_for


def build(place, bench, **hands):
    return build_engine_for(
        place.loaded(), place.settings, place.hands(bench, **hands),
        options=Options(fresh=False), listener=place.told.append,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def trials(place, run, stage):
    archive = Archive(place.settings.home / "archive.sqlite")
    return [trial for trial in archive.trials(run) if trial.stage == stage]


def test_the_champion_stands_beside_the_champions_before_it(place):
    result = build(place, Replay(["kept", "kept", "kept"] + ["rejected"] * 3))
    arms = result["shortlist"]["arms"]
    assert [arm["kind"] for arm in arms].count("champion") == 1
    assert {arm["candidate"][-3:] for arm in arms if arm["kind"] == "rival"} == {"001", "002"}
    rival = next(arm for arm in arms if arm["kind"] == "rival")
    assert rival["over_champion"]["value"] == pytest.approx(math.exp(-0.1))
    (trial,) = trials(place, result["run"], "shortlist")
    assert trial.verdict == "kept" and "none of 2 others" in trial.reason


def test_a_rival_that_is_faster_after_all_takes_the_champions_place(place):
    bench = Replay(["kept", "kept", "kept"] + ["rejected"] * 3, faster_after_all="001")
    result = build(place, bench)
    run = result["run"]
    assert result["champion_candidate"] == f"{run}-001"
    assert bench.named("confirm") == [("confirm", f"{run}-001")]
    assert (place.settings.runs / run / "champion").resolve().name == f"{run}-001"
    beaten = {trial.candidate[-3:] for trial in trials(place, run, "shortlist")}
    assert beaten == {"002", "003"}


def test_a_search_that_kept_nothing_has_no_shortlist(place):
    bench = Replay(["rejected"] * 6)
    assert build(place, bench)["shortlist"] is None
    assert bench.named("compare") == []


def test_killed_in_the_shortlist_it_measures_it_once_more_and_once_only(place, tmp_path):
    first = Replay(["kept", "kept"] + ["rejected"] * 4, die_at="compare")
    with pytest.raises(Killed):
        build(place, first)
    second = Replay([])
    result = build(place, second)
    assert len(second.named("compare")) == 1
    assert len(trials(place, result["run"], "shortlist")) == 1
    third = Replay(["kept", "kept"] + ["rejected"] * 4, die_at="confirm")
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    other = Place(elsewhere)
    with pytest.raises(Killed):
        build(other, third)
    fourth = Replay([])
    assert build(other, fourth)["shortlist"] is not None
    assert fourth.named("compare") == []


def test_nothing_but_one_kept_engine_has_nobody_to_stand_beside(place):
    result = build(place, Replay(["kept"] * 2), make_proposer=lambda run, _: Spins(run, most=1))
    assert result["shortlist"] is None
