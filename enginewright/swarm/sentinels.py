"""Candidates whose verdict is known beforehand, put through the same gates as any other in every
campaign: if the judge is wrong about these, its other verdicts are worth nothing.

The judge is not told which they are: it gets folders, as always.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from enginewright.model import Graph
from enginewright.plan import Choice, Plan, regroup
from enginewright.plan.choices import groups_by_signature, replace_groups
from enginewright.retention import CandidateRecord
from enginewright.swarm.run import Run
from enginewright.swarm.sentinel_outcomes import (
    EXPECTED,
    KINDS,
    PREFIX,
    SENTINEL,
    Kind,
    Outcome,
    outcomes,
    sentinel_kind,
)
from enginewright.swarm.workbench import Arms, Finding, TrialRules


def run_sentinels(run: Run, rules: TrialRules) -> list[Outcome]:
    """Run those that were not run yet, as far as the time left allows, and tell of all."""
    done = {
        sentinel_kind(run.state.candidate(trial.candidate).tactic)
        for trial in run.state.trials(SENTINEL)
    }
    champion = run.state.champion()
    if champion.parent is not None:
        for kind in KINDS:
            if kind not in done and run.journal.budget.has_time_for_sentinel():
                _run_one(run, kind, champion, rules)
    return outcomes(run.state.archive, run.state.run)


def _run_one(run: Run, kind: Kind, champion: CandidateRecord, rules: TrialRules) -> None:
    plan = _PLANS[kind](run, run.state.plan(champion))
    candidate, trial = run.state.add_candidate(
        plan,
        parent=champion.id,
        tactic=PREFIX + kind,
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
    held = outcomes(run.state.archive, run.state.run)[-1]
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
