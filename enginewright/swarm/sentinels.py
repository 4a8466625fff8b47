"""Candidates whose verdict is known beforehand, put through the same gates as any other in every
campaign: if the judge is wrong about these, its other verdicts are worth nothing.

The judge is not told which they are: it gets folders, as always.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from scipy import stats

from enginewright.model import Graph
from enginewright.plan import Choice, Plan, regroup
from enginewright.plan.choices import groups_by_signature, replace_groups
from enginewright.retention import Archive, CandidateRecord, TrialRecord
from enginewright.swarm.run import Run
from enginewright.swarm.workbench import Arms, Finding, TrialRules

SENTINEL = "sentinel"
"""Stage of their trials."""
Kind = Literal["wrong_output", "known_slow", "clone", "known_fast"]
KINDS: tuple[Kind, ...] = ("wrong_output", "known_slow", "clone", "known_fast")
"""In the order they are run: the quickest to judge first."""
_PREFIX = "sentinel_"
"""What their candidates' tactics begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the judge did on one sentinel."""

    kind: Kind
    """Which."""
    expected: str
    """What an honest judge says."""
    verdict: str
    """What it said."""
    as_expected: bool | None
    """Whether it did; None for a void, which says nothing."""

    def to_json(self) -> dict[str, Any]:
        """For `--json` and the report."""
        return {
            "kind": self.kind,
            "expected": self.expected,
            "verdict": self.verdict,
            "as_expected": self.as_expected,
        }


EXPECTED: dict[Kind, str] = {
    "wrong_output": "rejected: wrong",
    "known_slow": "rejected: slower",
    "clone": "not kept",
    "known_fast": "kept",
}
"""What an honest judge says."""


def run_sentinels(run: Run, rules: TrialRules) -> list[Outcome]:
    """Run those that were not run yet, as far as the time left allows, and tell of all."""
    done = {trial_kind(run, trial) for trial in run.state.trials(SENTINEL)}
    champion = run.state.champion()
    if champion.parent is not None:
        for kind in KINDS:
            if kind not in done and run.journal.budget.has_time_for_sentinel():
                _run_one(run, kind, champion, rules)
    return outcomes(run)


def outcomes(run: Run) -> list[Outcome]:
    """Of every sentinel of the run that has a verdict."""
    return [
        _outcome(trial_kind(run, trial), trial)
        for trial in run.state.trials(SENTINEL)
        if trial.state == "finished"
    ]


def trial_kind(run: Run, trial: TrialRecord) -> Kind:
    """Which sentinel a trial is."""
    name = run.state.candidate(trial.candidate).tactic.removeprefix(_PREFIX)
    return next(kind for kind in KINDS if kind == name)


def _outcome(kind: Kind, trial: TrialRecord) -> Outcome:
    headline = trial.reason or ""
    as_expected: bool | None = None
    if trial.verdict != "void":
        match kind:
            case "clone":
                as_expected = trial.verdict == "rejected"
            case "known_fast":
                as_expected = trial.verdict == "kept"
            case "known_slow":
                as_expected = headline.startswith(("rejected: slower", "rejected: guard"))
            case "wrong_output":
                as_expected = headline.startswith("rejected: wrong")
    return Outcome(kind=kind, expected=EXPECTED[kind], verdict=headline, as_expected=as_expected)


def false_promotions(archive: Archive) -> dict[str, Any]:
    """Clones that were promoted, of all that any run of this archive judged, with the 95 % interval
    (Clopper-Pearson)."""
    judged = promoted = 0
    for run in archive.runs():
        tactics = {held.id: held.tactic for held in archive.candidates(run.id)}
        for trial in archive.trials(run.id):
            is_clone = tactics[trial.candidate] == f"{_PREFIX}clone"
            if trial.stage == SENTINEL and is_clone and trial.verdict in ("kept", "rejected"):
                judged += 1
                promoted += trial.verdict == "kept"
    if judged == 0:
        return {"clones": 0, "promoted": 0, "rate": None, "low": 0.0, "high": 1.0}
    interval = stats.binomtest(promoted, judged).proportion_ci(confidence_level=0.95)
    return {
        "clones": judged,
        "promoted": promoted,
        "rate": promoted / judged,
        "low": float(interval.low),
        "high": float(interval.high),
    }


def _run_one(run: Run, kind: Kind, champion: CandidateRecord, rules: TrialRules) -> None:
    plan = _PLANS[kind](run, run.state.plan(champion))
    candidate, trial = run.state.add_candidate(
        plan,
        parent=champion.id,
        tactic=_PREFIX + kind,
        hypothesis=f"a sentinel: an honest judge says {EXPECTED[kind]}",
        predicted_effect=1.0,
        stage=SENTINEL,
    )
    run.state.archive.begin_trial(trial.id)
    start = time.monotonic()
    with run.stages.stage("sentinel"):
        finding = _judge(run, kind, candidate, rules)
    run.state.finish(trial, finding.kind, finding.headline, finding.evidence)
    run.journal.budget.charge_sentinel(time.monotonic() - start)
    held = outcomes(run)[-1]
    run.journal.tell(
        "sentinel",
        trial=trial.id,
        candidate=candidate.id,
        sentinel=kind,
        expected=held.expected,
        verdict=held.verdict,
        as_expected=held.as_expected,
    )


def _judge(run: Run, kind: Kind, candidate: CandidateRecord, rules: TrialRules) -> Finding:
    arms = run.champion_arms()
    engine = run.folder.engine(candidate.id)
    if kind == "wrong_output":
        _write_wrong(run.subject.graph, arms.champion, engine)
    else:
        plan = run.state.plan(candidate)
        folder = run.folder.candidate(candidate.id)
        refused = run.bench.build(run.subject, plan, folder, engine)
        if refused is not None:
            return refused
    judged: Arms = replace(arms, candidate=engine)
    if kind == "known_fast":
        # The slow one again, with the labels exchanged.
        judged = replace(arms, champion=engine, candidate=arms.champion)
    return run.bench.trial(run.subject, judged, rules, run.journal.say)


def _clone(run: Run, plan: Plan) -> Plan:
    """The same engine: its groups have other names."""
    steps = {
        name: step.model_copy(
            update={
                "groups": tuple(
                    group.model_copy(update={"id": f"clone{number}"})
                    for number, group in enumerate(step.groups)
                )
            }
        )
        for name, step in plan.steps.items()
    }
    return plan.model_copy(update={"steps": steps})


def _slow(run: Run, plan: Plan) -> Plan:
    """Half of the places of the commonest kind of group computed plainly."""
    graph, library = run.subject.graph, run.subject.library
    for name in plan.steps:
        alike = max(groups_by_signature(plan, graph, name).values(), key=len)
        choices = [
            Choice(ops=(op_id,), kernel=f"naive_{graph.op(op_id).kind}")
            for group in alike[: (len(alike) + 1) // 2]
            for op_id in group.ops
        ]
        plan = regroup(plan, graph, library, step=name, choices=choices)
    return plan


def _slow_again(run: Run, plan: Plan) -> Plan:
    """As `_slow`, with other names, so that it is a plan of its own."""
    slow = _slow(run, plan)
    name = next(iter(slow.steps))
    groups = [
        group.model_copy(update={"id": f"again{number}"})
        for number, group in enumerate(slow.steps[name].groups)
    ]
    renumbered = replace_groups(
        slow, run.subject.graph, run.subject.library, step=name, groups=groups
    )
    return _clone(run, renumbered)


def _same(run: Run, plan: Plan) -> Plan:
    """The champion's plan under the graph that the wrong engine will have."""
    wrong = _wrong_graph(run.subject.graph)
    return plan.model_copy(update={"graph": wrong.sha256})


_PLANS: dict[Kind, Callable[[Run, Plan], Plan]] = {
    "wrong_output": _same,
    "known_slow": _slow,
    "clone": _clone,
    "known_fast": _slow_again,
}


def _wrong_graph(graph: Graph) -> Graph:
    """The graph with the matrices of two layers exchanged: as fast, and wrong."""
    described = json.loads(graph.to_json())
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for op in described["ops"]:
        if op["kind"] != "linear":
            continue
        weight = graph.weights[op["weights"][0]]
        other = seen.setdefault((weight.dtype, tuple(weight.shape)), op)
        if other is not op and other["weights"] != op["weights"]:
            other["weights"][0], op["weights"][0] = op["weights"][0], other["weights"][0]
            return Graph.from_json(json.dumps(described))
    raise AssertionError("no two matrices are alike. This is a bug.")


def _write_wrong(graph: Graph, champion: Path, engine: Path) -> None:
    wrong = _wrong_graph(graph)
    shutil.rmtree(engine, ignore_errors=True)
    shutil.copytree(champion, engine, symlinks=True)
    (engine / "graph.json").write_text(wrong.to_json(), encoding="utf-8")
    plan = json.loads((engine / "plan.json").read_text(encoding="utf-8"))
    plan["graph"] = wrong.sha256
    (engine / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
