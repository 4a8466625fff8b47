import pytest
from replay import Killed, Place, Replay, Spins

from enginewright.errors import EngineError, UsageError
from enginewright.retention import Archive
from enginewright.swarm.loop import Options, build_engine_for
from enginewright.swarm.run_folder import RunFolder, hold_run


def build(place, bench, *, fresh=False, **hands):
    return build_engine_for(
        place.loaded(), place.settings, place.hands(bench, **hands),
        options=Options(fresh=fresh), listener=place.told.append,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def archive_of(place):
    return Archive(place.settings.home / "archive.sqlite")


def test_what_wins_becomes_champion_and_is_confirmed_and_shipped(place):
    bench = Replay(["kept", "rejected", "kept", "void", "rejected", "rejected"])
    result = build(place, bench)
    run = result["run"]
    assert result["trials"] == {"kept": 2, "rejected": 3, "void": 1}
    assert result["champion_candidate"] == f"{run}-003"
    assert bench.named("confirm") == [("confirm", f"{run}-003")]
    assert bench.named("trial")[3] == ("trial", f"{run}-003", f"{run}-004")
    folder = place.settings.runs / run
    assert (folder / "champion").resolve().name == f"{run}-003"
    for name in ("target.toml", "machine.json", "result.json", "report.html", "events.jsonl"):
        assert (folder / name).exists()
    assert archive_of(place).runs()[-1].state == "finished"
    assert place.remembered == [run]


def test_a_candidate_that_does_not_build_or_is_wrong_costs_one_trial_each(place):
    bench = Replay(["not_built", "wrong", "rejected", "rejected", "rejected", "kept"])
    result = build(place, bench)
    assert result["trials"] == {"kept": 1, "rejected": 5, "void": 0}
    trials = archive_of(place).trials(result["run"])
    reasons = [trial.reason for trial in trials if trial.stage == "search"]
    assert reasons[0].startswith("rejected: not_built") and "row 3" in reasons[1]
    assert len(bench.named("trial")) == 4


def test_a_wrong_naive_engine_stops_the_run_and_stays_refused(place):
    for _ in range(2):
        bench = Replay([], naive="rejected")
        with pytest.raises(EngineError, match="does not compute the model"):
            build(place, bench)
    assert bench.named("check_naive") == []
    assert len(archive_of(place).runs()) == 1


@pytest.mark.parametrize(
    "where", ["naive_plan", "build", "check_naive", "measure_bar", "check_kernels", "trial",
              "confirm", "deliver", "ask_once"],
)  # fmt: skip
def test_killed_anywhere_it_goes_on_and_repeats_nothing_finished(place, where):
    script = ["kept", "rejected", "rejected", "rejected", "kept", "rejected"]
    first = Replay(script, die_at=where)
    with pytest.raises(Killed):
        build(place, first)
    finished = {
        trial.id
        for run in archive_of(place).runs()
        for trial in archive_of(place).trials(run.id)
        if trial.state == "finished"
    }
    second = Replay(first.script)
    result = build(place, second)
    archive = archive_of(place)
    assert len(archive.runs()) == 1 and archive.runs()[0].state == "finished"
    trials = archive.trials(result["run"])
    assert finished <= {trial.id for trial in trials}
    assert all(trial.state == "finished" for trial in trials)
    assert result["trials"]["kept"] + result["trials"]["rejected"] == 6
    judged = [call[2] for call in first.named("trial") + second.named("trial")]
    repeated = len(judged) - len(set(judged))
    assert repeated == (1 if where == "trial" else 0)


def test_killed_in_the_middle_of_the_search_it_keeps_the_champion(place):
    with pytest.raises(Killed):
        build(place, Replay(["kept", "rejected", "killed"]))
    bench = Replay(["rejected", "rejected", "rejected", "rejected"])
    result = build(place, bench)
    run = result["run"]
    assert bench.named("trial")[0] == ("trial", f"{run}-001", f"{run}-003")
    assert result["trials"] == {"kept": 1, "rejected": 5, "void": 0}
    assert bench.named("measure_bar") == [] and bench.named("check_naive") == []


def test_engine_folders_that_vanished_are_built_again(place):
    with pytest.raises(Killed):
        build(place, Replay(["kept", "killed"]))
    (run,) = archive_of(place).runs()
    engines = place.settings.runs / run.id / "engines"
    for engine in list(engines.iterdir()):
        for file in engine.iterdir():
            file.unlink()
        engine.rmdir()
    result = build(place, Replay(["rejected"] * 5))
    assert result["trials"] == {"kept": 1, "rejected": 5, "void": 0}


def test_fresh_leaves_the_unfinished_run_for_good(place):
    with pytest.raises(Killed):
        build(place, Replay(["killed"]))
    result = build(place, Replay(["rejected"] * 6), fresh=True)
    states = {run.id: run.state for run in archive_of(place).runs()}
    assert states.pop(result["run"]) == "finished"
    assert list(states.values()) == ["abandoned"]


def test_another_host_program_does_not_go_on_with_findings_of_the_old_one(place):
    with pytest.raises(Killed):
        build(place, Replay(["killed"]))
    build(place, Replay(["rejected"] * 6), host="another")
    assert [run.state for run in archive_of(place).runs()] == ["abandoned", "finished"]


def test_the_budget_of_trials_holds_over_a_resume(tmp_path):
    place = Place(tmp_path, trials=5)
    with pytest.raises(Killed):
        build(place, Replay(["kept", "kept", "killed"]))
    bench = Replay(["rejected"] * 9)
    result = build(place, bench)
    assert len(bench.named("trial")) == 3
    assert sum(result["trials"].values()) == 5
    assert "5 trials" in result["stopped_because"]


def test_no_trial_begins_without_time_for_the_end(tmp_path):
    place = Place(tmp_path, minutes=0.0001)
    bench = Replay(["kept"] * 9)
    result = build(place, bench)
    assert bench.named("trial") == [] and "confirmation" in result["stopped_because"]
    assert bench.named("confirm") == [("confirm", f"{result['run']}-000")]


def test_nothing_left_to_propose_ends_the_search(place):
    bench = Replay(["kept"] * 9)
    result = build(place, bench, make_proposer=lambda run, options: Spins(run, most=2))
    assert result["stopped_because"] == "nothing is left to propose"
    assert sum(result["trials"].values()) == 2


def test_three_measurements_that_say_nothing_end_the_search(place):
    result = build(place, Replay(["void"] * 6))
    assert result["trials"]["void"] == 3 and "measured nothing" in result["stopped_because"]


def test_a_run_is_built_by_one_process_at_a_time(place):
    with pytest.raises(Killed):
        build(place, Replay(["killed"]))
    (run,) = archive_of(place).runs()
    with (
        hold_run(RunFolder(place.settings.runs / run.id)),
        pytest.raises(UsageError, match="is being built by process"),
    ):
        build(place, Replay([]))


def test_the_history_tells_every_verdict_and_the_loops_own_share(place):
    result = build(place, Replay(["kept"] + ["rejected"] * 5))
    kinds = [event["kind"] for event in place.events(result["run"])]
    assert kinds.count("verdict") == 6 and kinds.count("champion") == 1
    assert kinds[-1] == "finished"
    timings = result["timings"]
    assert 0 <= timings["own_share"] <= 1
    assert {"build", "kernel_check", "trial"} <= timings["seconds_per_candidate"].keys()


def test_a_champion_that_is_wrong_on_fresh_inputs_makes_room_for_the_one_before(place):
    bench = Replay(["kept", "kept"] + ["rejected"] * 4, wrong_in_the_end="002")
    result = build(place, bench)
    run = result["run"]
    assert result["champion_candidate"] == f"{run}-001"
    assert [call[1] for call in bench.named("deliver")] == [f"{run}-001"]
    assert (place.settings.runs / run / "champion").resolve().name == f"{run}-001"


def test_the_campaign_opens_with_the_champion_against_itself(place):
    bench = Replay(["kept"] + ["rejected"] * 5)
    result = build(place, bench)
    names = [call[0] for call in bench.calls]
    assert names.count("calibrate") == 1
    first, second = [number for number, name in enumerate(names) if name == "trial"][:2]
    assert first < names.index("calibrate") < second
    assert result["calibration"]["holds_one"]


def test_a_champion_that_differs_from_itself_ends_the_search(place):
    bench = Replay(["kept"] * 6)
    bench.calibration = (1.01, 1.03)
    result = build(place, bench)
    assert "differs from itself" in result["stopped_because"]
    # A second chance, no third.
    assert len(bench.named("calibrate")) == 2 and len(bench.named("trial")) == 1


def test_each_trial_gets_its_share_of_the_campaigns_error_rate(place):
    bench = Replay(["rejected", "kept"] + ["rejected"] * 4)
    build(place, bench)
    levels = [rules.level for rules in bench.rules]
    assert levels[2] > levels[1] and levels[3] < levels[2]
    assert [rules.smallest_effect for rules in bench.rules] == [None, None] + [0.005] * 4


def test_every_campaign_judges_candidates_whose_verdict_is_known(place):
    bench = Replay(["kept"] + ["rejected"] * 5)
    result = build(place, bench)
    assert [held["kind"] for held in result["sentinels"]] == [
        "wrong_output", "known_slow", "clone", "known_fast",
    ]  # fmt: skip
    assert all(held["as_expected"] for held in result["sentinels"])
    assert result["false_promotion"]["clones"] == 1
    assert result["false_promotion"]["promoted"] == 0
    assert result["trials"] == {"kept": 1, "rejected": 5, "void": 0}


def test_a_judge_that_promotes_clones_is_found_out(place):
    bench = Replay(["kept"] + ["rejected"] * 5)
    bench.promotes_clones = True
    result = build(place, bench)
    (clone,) = [held for held in result["sentinels"] if held["kind"] == "clone"]
    assert clone["as_expected"] is False
    assert result["false_promotion"]["rate"] == 1.0 and result["false_promotion"]["low"] > 0


def test_sentinels_are_not_judged_twice_after_a_kill(place):
    with pytest.raises(Killed):
        build(place, Replay(["kept"] + ["rejected"] * 5, die_at="confirm"))
    bench = Replay([])
    result = build(place, bench)
    assert bench.named("sentinel") == [] and len(result["sentinels"]) == 4
