"""A run's folder and archive, gathered for the report."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from enginewright.delivery.report import (
    ProfiledEngine,
    material_from_run,
    profile_scenarios,
    render_report,
    report_finished_run,
)
from enginewright.delivery.report.profile import group_times
from enginewright.errors import ArchiveError, EngineError, UsageError
from enginewright.retention import Archive, CandidateRecord, Store
from enginewright.target import Scenario

TARGET = {
    "name": "tiny.cpu",
    "model": {"checkpoint": "tiny", "sha256": "abcdef01"},
    "workload": {
        "objective": "request_ms",
        "scenario": [{"name": "chat", "prompt_tokens": 32, "output_tokens": 8}],
    },
    "numerics": {"allow": ["activations_q8"]},
    "budget": {"wall_minutes": 5, "trials": 6},
}
METRIC = {"value": 10.0, "low": 9.0, "high": 11.0, "unit": "ms"}
RESULT = {
    "naive": {"request_ms": {**METRIC, "value": 100.0, "low": 90.0, "high": 110.0}},
    "champion": {"request_ms": METRIC},
    "baselines": {"other": {"request_ms": METRIC}},
    "speedup": {"value": 10.0, "low": 9.5, "high": 10.5},
    "floor_share": {"value": 0.5, "low": 0.4, "high": 0.6, "unit": ""},
    "acceptance": [
        {"metric": "request_ms", "comparison": "<=", "goal": 20.0, "against": "absolute",
         "value": 10.0, "low": 9.0, "high": 11.0, "holds": True}
    ],
    "stopped_because": "nothing is left to propose",
    "binary": "shipped/engine",
    "timings": {"wall_seconds": 99.0, "stages": {"trial": 60.0}, "own_share": 0.02},
}  # fmt: skip
PROFILE = [
    {
        "step": "decode", "rows": 1, "segments": 1, "selected": 1, "context": 36,
        "profile": {
            "groups": [
                {"id": "d0", "ops": ["L0.a", "L0.b"], "kernel": "k", "nanoseconds": [9, 10, 90]},
                {"id": "d1", "ops": ["L1.a", "L1.b"], "kernel": "k", "nanoseconds": [20, 20, 20]},
                {"id": "d2", "ops": ["e"], "kernel": "other", "nanoseconds": [5]},
            ]
        },
        "op_costs": {
            name: {"kind": kind, "bytes": 4, "flops": flops}
            for name, kind, flops in (
                ("L0.a", "rms_norm", 0), ("L0.b", "linear", 0), ("L1.a", "rms_norm", 0),
                ("L1.b", "linear", 90), ("e", "add", 1),
            )
        },
        "bytes_per_second": 1e9,
        "flops_per_second": 6e9,
    }
]  # fmt: skip


class Place:
    """An archive with a run: naive kept, one candidate faster, one not timed, one open."""

    def __init__(self, folder):
        self.archive = Archive(folder / "home/archive.sqlite")
        self.store = Store(folder / "home/store")
        self.run = self.archive.start_run(TARGET, "cd" * 32).id
        self.folder = folder / "runs" / self.run
        self.folder.mkdir(parents=True)
        self.add("c0", None, "naive", "naive", ("kept", {"said": "right"}))
        told = {"comparison": {"speedup": 9.0, "low": 8.5, "high": 9.5}}
        self.add("c1", "c0", "big step", "search", ("kept", told))
        self.add("c2", "c1", "spin", "search", ("void", {"comparison": None}))
        self.add("c3", "c1", "spin", "search", None)
        self.archive.note(self.run, "screened_out", {"tactic": "spin"})
        self.archive.note(self.run, "started", {"digests": {"host": "ee" * 32}})

    def add(self, name, parent, tactic, stage, finished):
        trial = self.archive.add_candidate(
            CandidateRecord(
                id=name, run=self.run, parent=parent, tactic=tactic, hypothesis="it is better",
                predicted_effect=1.5, plan_sha256="00" * 32,
            ),
            stage,
        )  # fmt: skip
        if finished is not None:
            verdict, evidence = finished
            digest = self.store.put(json.dumps(evidence).encode())
            self.archive.begin_trial(trial.id)
            self.archive.finish_trial(trial.id, verdict, reason="because", evidence=digest)

    def material(self, **more):
        return material_from_run(self.folder, self.archive, self.store, **more)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_an_unfinished_run_tells_what_it_has_and_what_is_missing(place):
    material = place.material()
    assert material.target == "tiny.cpu"
    assert material.speedup is None
    assert material.champion == "c1"
    assert [trial.verdict for trial in material.trials] == ["kept", "kept", "void", None]
    assert material.trials[1].effect.value == 9.0
    assert material.trials[2].effect is None
    notes = " ".join(material.notes)
    assert "This run has not finished" in notes
    assert "no confirmation" in notes
    assert "not profiled" in notes
    assert "unfinished" in render_report(material)


def test_a_finished_run_tells_everything(place):
    (place.folder / "result.json").write_text(json.dumps(RESULT))
    (place.folder / "profile.json").write_text(json.dumps(PROFILE))
    machine = {
        "processor": "P",
        "features": ["avx2", "clflush"],
        "read_bandwidth": {"1": 1.5e10},
        "peak_flops": {"2": 2e11},
    }
    (place.folder / "machine.json").write_text(json.dumps(machine))
    place.archive.finish_run(place.run)
    material = place.material()
    assert material.notes == ()
    assert material.speedup.low == 9.5
    assert [engine.name for engine in material.engines] == ["naive", "champion", "other"]
    assert material.acceptance[0].holds
    assert dict(material.environment)["read bandwidth"] == "1 thread: 15.0 GB/s"
    assert dict(material.environment)["features"] == "avx2"
    assert dict(material.environment)["peak flops"] == "2 threads: 200 GFLOP/s"
    inputs = dict(material.inputs)
    assert inputs["digest of the target"] == "cd" * 32
    assert inputs["scenario chat"] == "32 tokens in, 8 out"
    assert inputs["digest of the host"] == "ee" * 32
    assert inputs["the loop's own share"] == "2.0%"
    assert len(material.groups) == 2
    assert "Time per group" in render_report(material)


def test_a_run_about_to_finish_is_told_with_the_result_at_hand(place):
    material = place.material(result=RESULT)
    assert material.state == "finished"
    assert material.speedup.value == 10.0


def test_the_judges_event_gives_the_effect_and_the_evidence_when_it_is_lost(place):
    trial = place.archive.trials(place.run)[1].id
    assert place.material().trials[1].effect.value == 9.0
    place.archive.note(
        place.run, "verdict", {"trial": trial, "speedup": {"value": 7.0, "low": 6.0, "high": 8.0}}
    )
    assert place.material().trials[1].effect.value == 7.0


def test_tactics_are_counted_by_what_became_of_their_candidates(place):
    big, spin = place.material().tactics
    assert (big.tactic, big.proposed, big.tried, big.kept) == ("big step", 1, 1, 1)
    assert big.gain == pytest.approx(9.0)
    assert (spin.tactic, spin.proposed, spin.screened_out, spin.tried, spin.kept) == (
        "spin", 3, 1, 1, 0,
    )  # fmt: skip
    assert spin.gain == 1.0


def test_the_judges_own_test_comes_from_the_archive_and_is_no_step_of_the_search(place):
    assert place.material().judge is None
    place.add("s0", "c1", "sentinel_clone", "sentinel", ("rejected", {}))
    place.add("s1", "c1", "sentinel_known_fast", "sentinel", ("kept", {}))
    place.archive.note(
        place.run,
        "calibrated",
        {"low": 0.99, "high": 1.01, "log_ratios": [0.0] * 8, "sd": 0.004, "autocorrelation": 0.1,
         "detectable": 0.005, "holds_one": True},
    )  # fmt: skip
    gap = {"candidate": "c1", "tactic": "big step",
           "selected": {"value": 9.0, "low": 8.5, "high": 9.5},
           "confirmed": {"value": 8.0, "low": 7.5, "high": 8.5}}  # fmt: skip
    place.add("c4", "c1", "ablation", "shortlist", ("kept", {"shortlist": {"gaps": [gap]}}))
    material = place.material(result=RESULT)
    judge = material.judge
    assert [held.as_expected for held in judge.sentinels] == [True, True]
    assert judge.false_promotion.startswith("0 of 1 clones")
    assert judge.same.blocks == 8 and judge.same.holds_one
    step, whole = judge.gaps
    assert (step.name, step.selected.value, step.confirmed.value) == ("big step", 9.0, 8.0)
    assert (whole.name, whole.selected.value, whole.confirmed.value) == ("whole search", 9.0, 10.0)
    assert {held.tactic for held in material.tactics} == {"big step", "spin"}
    assert place.material().champion == "c1"
    assert "How the judge was tested" in render_report(material)


def test_a_run_that_is_not_in_the_archive_is_refused(place):
    with pytest.raises(UsageError, match="run `r0` is not in the archive"):
        material_from_run(place.folder.parent / "r0", place.archive, place.store)


def test_a_damaged_file_is_named(place):
    (place.folder / "result.json").write_text("{")
    with pytest.raises(ArchiveError, match=r"result\.json: cannot be read"):
        place.material()


def test_damaged_evidence_is_not_passed_over(place):
    digest = place.archive.trials(place.run)[1].evidence
    (place.store.folder / digest[:2] / digest[2:]).write_bytes(b"{}")
    with pytest.raises(ArchiveError, match="has digest"):
        place.material()


def test_layers_are_one_row_and_the_floor_is_the_longer_of_bytes_and_flops():
    pair, single = group_times(PROFILE)
    assert (pair.ops, pair.calls, pair.measured_ns) == ("a b", 2, 30)
    assert pair.floor_ns == pytest.approx(8 + 15)
    assert (single.ops, single.calls) == ("e", 1)
    assert single.step == "decode, 1 row, 36 tokens of context"


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """An engine whose host program fails."""
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "plan.json").write_text(
        json.dumps(
            {
                "threads": 1, "numerics": [], "cache": {"dtype": "f32"},
                "steps": {"prefill": {"rows": 4}, "decode": {"rows": 2}},
            }
        )
    )  # fmt: skip
    (folder / "graph.json").write_text("{}")
    graph = SimpleNamespace(from_json=lambda _: SimpleNamespace(kind="decoder"))
    monkeypatch.setattr("enginewright.delivery.report.profile.Graph", graph)
    return ProfiledEngine(
        program=Path("/bin/false"), engine=folder, checkpoint=folder,
        machine=SimpleNamespace(peak_flops_per_second=lambda _: 1.0),
    )  # fmt: skip


SCENARIO = Scenario(name="chat", prompt_tokens=32, output_tokens=8)


def test_an_engine_that_cannot_be_profiled_is_an_error_with_the_command(broken):
    with pytest.raises(EngineError, match="profile of step prefill ended with 1") as raised:
        profile_scenarios(broken, [SCENARIO])
    assert "--rows 4" in raised.value.hint


def test_a_run_whose_champion_cannot_be_profiled_has_a_page_that_says_why(place, broken):
    page = report_finished_run(
        place.folder, place.archive, place.store,
        result=RESULT, champion=broken, scenarios=[SCENARIO],
    )  # fmt: skip
    assert page == place.folder / "report.html"
    told = " ".join(page.read_text().split())
    assert "The champion was not profiled" in told
    assert "ended with 1" in told
    assert "Acceptance" in told
