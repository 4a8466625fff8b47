from dataclasses import replace

import pytest
from replay import Place, Replay, subject_of

from enginewright.plan import Allowed, naive_plan
from enginewright.retention import Archive, Store
from enginewright.retention.memory import Lesson, Memory
from enginewright.swarm.budget import Budget
from enginewright.swarm.events import Journal
from enginewright.swarm.run import Run
from enginewright.swarm.run_folder import RunFolder
from enginewright.swarm.run_state import NAIVE, SEARCH, RunState
from enginewright.swarm.screener import MicroScreener
from enginewright.swarm.stages import Stages
from enginewright.swarm.tuning import Tuning
from enginewright.swarm.warm_start import lessons_of, warm_plan
from enginewright.variation import big_step
from enginewright.variation.idea import Context, Idea

FEATURES = frozenset({"avx2", "fma", "f16c", "sse4_1", "ssse3", "bmi2"})


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("place"))
    found = subject_of(place.loaded(), print)
    return replace(found, allowed=Allowed(features=FEATURES, numerics=frozenset()))


NINE = {"value": 9.0, "low": 8.0, "high": 10.0}


@pytest.fixture
def run(tmp_path, subject):
    archive, store = Archive(tmp_path / "archive.sqlite"), Store(tmp_path / "store")
    name = archive.start_run({}, "digest").id
    folder = RunFolder(tmp_path / name)
    folder.root.mkdir()
    state = RunState(archive, store, name)
    budget = Budget(wall_seconds=3600, trials=5)
    journal = Journal(archive, name, folder, budget, lambda told: None)
    made = Run(
        subject=subject, state=state, folder=folder, journal=journal, stages=Stages(),
        bench=Replay([]),
    )  # fmt: skip
    keep(made, naive_plan(subject.graph, subject.library, 1), "naive", NAIVE, parent=None)
    return made


def keep(run, plan, tactic, stage, *, parent):
    candidate, trial = run.state.add_candidate(
        plan, parent=parent, tactic=tactic, hypothesis="", predicted_effect=1.0, stage=stage
    )
    run.state.archive.begin_trial(trial.id)
    run.state.finish(trial, "kept", "kept", {})
    return candidate


def fast(run):
    naive, _ = run.state.naive()
    plan = big_step(
        run.state.plan(naive), run.subject.graph, run.subject.library, allowed=run.subject.allowed
    )
    return keep(run, plan, "big_step", SEARCH, parent=naive.id), plan


def kernels(plan):
    return [
        (step, g.ops, g.kernel, g.parameters)
        for step in plan.steps
        for g in plan.steps[step].groups
    ]


def test_a_confirmed_champion_teaches_the_next_run_its_plan(run, tmp_path):
    _, plan = fast(run)
    memory = Memory(tmp_path / "memory.sqlite")
    lessons = lessons_of(run, NINE)
    memory.learn(lessons)
    # Layers alike teach one lesson.
    assert len(lessons) < sum(len(step.groups) for step in plan.steps.values())
    naive = run.state.plan(run.state.naive()[0])
    warm = warm_plan(naive, run.subject, memory)
    assert kernels(warm) == kernels(plan) and kernels(warm) != kernels(naive)


def test_memory_of_another_processor_or_none_gives_no_warm_start(run, tmp_path):
    fast(run)
    memory = Memory(tmp_path / "memory.sqlite")
    naive = run.state.plan(run.state.naive()[0])
    assert warm_plan(naive, run.subject, memory) is None
    memory.learn(lessons_of(run, NINE))
    elsewhere = replace(run.subject, machine=replace(run.subject.machine, processor="another"))
    assert warm_plan(naive, elsewhere, memory) is None


def test_the_naive_engine_teaches_nothing(run):
    assert lessons_of(run, NINE) == []


def test_the_same_run_teaches_once_and_another_confirms(run, tmp_path):
    memory = Memory(tmp_path / "memory.sqlite")
    lesson = Lesson(
        signature="s", hardware="h", ops="linear", step="decode", kernel="k", parameters={"A": 1},
        speedup=2.0, speedup_low=1.5, speedup_high=2.5, run="r1", evidence="e",
    )  # fmt: skip
    for held in (lesson, lesson, replace(lesson, run="r2")):
        memory.learn([held])
    assert memory.recall("s", "h").confirmations == 2
    memory.learn([replace(lesson, run="r3", kernel="other")])
    assert memory.recall("s", "h").kernel == "other"
    assert memory.recall("s", "h").confirmations == 1
    assert memory.recall("s", "elsewhere") is None
    assert memory.forget() == 1 and memory.lessons() == []


def test_a_warm_run_begins_with_memory_and_a_cold_one_with_the_big_step(run, tmp_path):
    memory = Memory(tmp_path / "memory.sqlite")
    naive = run.state.plan(run.state.naive()[0])
    cold = Tuning(run, lambda *_: 1.0, None).propose(naive, print)
    assert cold.tactic == "big_step"
    keep(run, cold.plan, "big_step", SEARCH, parent=run.state.naive()[0].id)
    memory.learn(lessons_of(run, NINE))
    fresh = Archive(tmp_path / "archive.sqlite").start_run({}, "digest").id
    state = RunState(run.state.archive, run.state.store, fresh)
    other = replace(run, state=state)
    keep(other, naive, "naive", NAIVE, parent=None)
    warm = Tuning(other, lambda *_: 1.0, memory).propose(naive, print)
    assert warm.tactic == "warm_start"


def context_of(run, plan):
    naive = run.state.plan(run.state.naive()[0])
    return Context(
        graph=run.subject.graph, library=run.subject.library, allowed=run.subject.allowed,
        plan=plan, naive=naive, kept=(), cores=1,
    )  # fmt: skip


def test_screening_times_both_plans_in_turn_and_weighs_steps_by_the_workload(run):
    _, plan = fast(run)
    naive = run.state.plan(run.state.naive()[0])
    asked = []

    def timed(engine, step, shape):
        is_naive = (engine / "plan.json").read_text() == naive.to_json()
        asked.append((is_naive, step))
        return {"prefill": 8.0, "decode": 2.0}[step] * (1.0 if is_naive else 0.25)

    screener = MicroScreener(run, timed, seconds=60)
    idea = Idea(make=lambda: plan, tactic="big_step", hypothesis="", predicted_effect=4.0)
    assert screener.speedup(None, idea, context_of(run, naive)) == pytest.approx(4.0)
    look = [True, False, False, True]
    assert [who for who, step in asked if step == "decode"] == look + look
    assert run.state.last_event("screened")["speedup"] == pytest.approx(4.0)


def test_luck_at_the_first_look_does_not_survive_the_second(run):
    _, plan = fast(run)
    naive = run.state.plan(run.state.naive()[0])
    looks = []

    def timed(engine, step, shape):
        is_naive = (engine / "plan.json").read_text() == naive.to_json()
        looks.append(step)
        # The second half of the calls: both alike.
        is_first_look = looks.count(step) <= 4
        return 1.0 if is_naive or not is_first_look else 0.8

    screener = MicroScreener(run, timed, seconds=60)
    idea = Idea(make=lambda: plan, tactic="big_step", hypothesis="", predicted_effect=4.0)
    assert screener.speedup(None, idea, context_of(run, naive)) == pytest.approx(1.0)
    told = run.state.last_event("screened")
    assert told["first_look"] == pytest.approx(1.25) and told["speedup"] == pytest.approx(1.0)


def test_an_engine_that_cannot_be_timed_is_screened_out_not_slow(run):
    _, plan = fast(run)
    screener = MicroScreener(run, lambda *_: None, seconds=60)
    idea = Idea(make=lambda: plan, tactic="big_step", hypothesis="", predicted_effect=4.0)
    naive = run.state.plan(run.state.naive()[0])
    assert screener.speedup(None, idea, context_of(run, naive)) is None
    assert run.state.last_event("screened_out")["speedup"] is None
