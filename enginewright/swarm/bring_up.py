"""The naive engine, checked, and the bar that the search must clear."""

from __future__ import annotations

import json
import time
from typing import Any

from enginewright.errors import EngineError, InternalError
from enginewright.retention import CandidateRecord
from enginewright.swarm.run import Run
from enginewright.swarm.run_state import NAIVE


def bring_up(run: Run) -> CandidateRecord:
    """Build the naive engine and check it against the oracle; its candidate. What an earlier
    process
    of the run found is not found again, but a missing engine folder is built anew.

    Raises: EngineError if it is wrong: then nothing that follows could be trusted.
    """
    state, bench = run.state, run.bench
    candidate, trial = state.naive() or state.add_candidate(
        bench.naive_plan(run.subject),
        parent=None,
        tactic="naive",
        hypothesis="one plain kernel an op: slow, readable and right",
        predicted_effect=1.0,
        stage=NAIVE,
    )
    if trial.state == "finished" and trial.verdict != "kept":
        _refuse(trial.reason)
    build_if_absent(run, candidate)
    if trial.state == "finished":
        return candidate
    run.folder.point_champion_at(candidate.id)
    state.archive.begin_trial(trial.id)
    with run.stages.stage("bring_up"):
        finding = bench.check_naive(run.subject, run.folder.engine(candidate.id), run.journal.say)
    state.finish(trial, finding.kind, finding.headline, finding.evidence)
    run.journal.tell("naive", candidate=candidate.id, verdict=finding.kind, reason=finding.headline)
    if finding.kind != "kept":
        _refuse(finding.headline)
    return candidate


def build_if_absent(run: Run, candidate: CandidateRecord) -> None:
    """Build the engine of a candidate that built before, if its folder is gone.

    Raises: InternalError if it no longer builds.
    """
    engine = run.folder.engine(candidate.id)
    if engine.exists():
        return
    with run.stages.stage("bring_up"):
        refused = run.bench.build(
            run.subject, run.state.plan(candidate), run.folder.candidate(candidate.id), engine
        )
    if refused is not None:
        raise InternalError(f"candidate {candidate.id}: {refused.headline}. This is a bug.")


def _refuse(reason: str | None) -> None:
    raise EngineError(
        f"the naive engine does not compute the model: {reason}",
        hint="docs/adding-a-model.md says how to find the op that differs; --fresh tries again",
    )


def measure_bar(run: Run) -> dict[str, dict[str, Any]]:
    """Metrics of the naive engine and the baselines, by arm; from the archive if measured
    before."""
    before = run.state.last_event("bar")
    if before is not None:
        return dict(json.loads(run.state.store.get(before["evidence"])))
    start = time.monotonic()
    with run.stages.stage("bar"):
        bar = run.bench.measure_bar(
            run.subject, run.champion_arms().naive, run.folder.work, run.journal.say
        )
    digest = run.state.store.put(json.dumps(bar).encode())
    run.journal.tell(
        "bar",
        evidence=digest,
        arms=sorted(bar),
        naive=bar.get("naive", {}),
        seconds=time.monotonic() - start,
    )
    return bar
