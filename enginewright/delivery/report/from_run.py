"""A run's folder and the archive, gathered for the report.

The folder holds `result.json` (what `enginewright build --json` prints), `machine.json` (the probed
machine) and `profile.json` (a list of profiled steps of the champion, see `profile.py`); what is
absent is told as a note, for a run may be unfinished. Verdicts, hypotheses and evidence come from
the archive and its store.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

from enginewright.delivery.report.facts import input_facts, machine_facts, recheck_commands
from enginewright.delivery.report.judge_test import judge_test
from enginewright.delivery.report.material import (
    Acceptance,
    CandidateEntry,
    EngineFigures,
    Estimate,
    ReportMaterial,
    TacticSummary,
    TrialEntry,
)
from enginewright.delivery.report.profile import group_times
from enginewright.errors import ArchiveError, UsageError
from enginewright.retention import Archive, Event, RunRecord, Store
from enginewright.swarm.run_state import NAIVE, SEARCH


def material_from_run(
    run_folder: Path, archive: Archive, store: Store, *, result: dict[str, Any] | None = None
) -> ReportMaterial:
    """Everything a report tells of the run whose folder is `run_folder` (named by the run's id).

    `result` is what `result.json` will hold, for a run that is about to finish.

    Raises: UsageError if the archive has no such run; ArchiveError if a file or the evidence of a
    trial is damaged.
    """
    run = _find(archive, run_folder.name)
    state = "finished" if result is not None else run.state
    result = result or _read(run_folder / "result.json") or {}
    machine = _read(run_folder / "machine.json")
    profile = _read(run_folder / "profile.json")
    candidates = tuple(
        CandidateEntry(
            candidate=held.id,
            parent=held.parent,
            tactic=held.tactic,
            hypothesis=held.hypothesis,
            predicted_effect=held.predicted_effect,
        )
        for held in archive.candidates(run.id)
    )
    events = archive.events(run.id)
    trials = _trials(archive, store, run.id, events)
    notes = list(result.get("notes", ()))
    if state != "finished":
        how = "has not finished" if state == "running" else f"was {state}"
        notes.append(f"This run {how}: what is below is what is known of it.")
    if not result.get("speedup"):
        notes.append("There is no confirmation yet: no figure here was taken on fresh inputs.")
    if not isinstance(profile, list):
        why = f": {profile['error']}" if profile else ""
        notes.append(f"The champion was not profiled, so time per group is missing{why}.")
    workload = run.target.get("workload", {})
    speedup = _estimate(result.get("speedup"), "x")
    return ReportMaterial(
        run=run.id,
        target=str(run.target.get("name", run.id)),
        state=state,
        started=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(run.created_at)),
        objective=workload.get("objective"),
        speedup=speedup,
        floor_share=_estimate(result.get("floor_share"), ""),
        acceptance=tuple(_acceptance(row) for row in result.get("acceptance", ())),
        engines=_engines(result),
        champion=_champion(result, trials, candidates),
        candidates=candidates,
        trials=trials,
        groups=group_times(profile) if isinstance(profile, list) else (),
        tactics=tactic_summaries(candidates, trials, events),
        judge=judge_test(archive, store, run.id, events=events, trials=trials, confirmed=speedup),
        environment=machine_facts(machine),
        inputs=input_facts(run, result, events),
        recheck=recheck_commands(run, trials, result),
        notes=tuple(notes),
    )


def tactic_summaries(
    candidates: tuple[CandidateEntry, ...],
    trials: tuple[TrialEntry, ...],
    events: list[Event],
) -> tuple[TacticSummary, ...]:
    """What each tactic gave, the largest gain first.

    Candidates set aside by micro-timings may never reach the archive as candidates: the events
    `screened_out` (with the `tactic`) count them.
    """
    # Sentinels and ablations are the judge's and the shortlist's: no tactic proposed them.
    others = {trial.candidate for trial in trials} - {
        trial.candidate for trial in trials if trial.stage == SEARCH
    }
    tactic_of = {
        entry.candidate: entry.tactic
        for entry in candidates
        if entry.parent is not None and entry.candidate not in others
    }
    archived = Counter(tactic_of.values())
    screened = Counter(
        str(event.details["tactic"])
        for event in events
        if event.kind == "screened_out" and "tactic" in event.details
    )
    tried: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    log_gain: dict[str, float] = {}
    for trial in trials:
        tactic = tactic_of.get(trial.candidate)
        if tactic is None or trial.verdict is None or trial.stage != SEARCH:
            continue
        tried[tactic] += 1
        if trial.verdict == "kept":
            kept[tactic] += 1
            gain = math.log(trial.effect.value) if trial.effect else 0.0
            log_gain[tactic] = log_gain.get(tactic, 0.0) + gain
    summaries = [
        TacticSummary(
            tactic=tactic,
            proposed=archived[tactic] + screened[tactic],
            screened_out=screened[tactic],
            tried=tried[tactic],
            kept=kept[tactic],
            gain=math.exp(log_gain.get(tactic, 0.0)),
        )
        for tactic in archived | screened
    ]
    return tuple(sorted(summaries, key=lambda held: (-held.gain, -held.tried, held.tactic)))


def _find(archive: Archive, name: str) -> RunRecord:
    for run in archive.runs():
        if run.id == name:
            return run
    raise UsageError(
        f"run `{name}` is not in the archive {archive.path}",
        hint="`enginewright log` lists what is there; a run's folder has the run's name",
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{path}: cannot be read: {error}") from error


def _trials(
    archive: Archive, store: Store, run: str, events: list[Event]
) -> tuple[TrialEntry, ...]:
    told = {
        event.details["trial"]: _estimate(event.details.get("speedup"), "x")
        for event in events
        if event.kind == "verdict" and "trial" in event.details
    }
    entries = []
    for trial in archive.trials(run):
        effect = told.get(trial.id)
        # A process that died between the verdict and its event left the evidence only.
        if effect is None and trial.evidence is not None:
            effect = _effect(json.loads(store.get(trial.evidence)))
        entries.append(
            TrialEntry(
                trial=trial.id,
                candidate=trial.candidate,
                stage=trial.stage,
                verdict=trial.verdict,
                reason=trial.reason,
                evidence=trial.evidence,
                effect=effect,
            )
        )
    return tuple(entries)


def _effect(evidence: dict[str, Any]) -> Estimate | None:
    """The paired comparison of a verdict; None where nothing was timed."""
    held = evidence.get("comparison")
    if not isinstance(held, dict):
        return None
    return Estimate(value=held["speedup"], low=held["low"], high=held["high"], unit="x")


def _estimate(held: Any, unit: str) -> Estimate | None:
    if held is None:
        return None
    if isinstance(held, (int, float)):
        return Estimate(value=float(held), low=None, high=None, unit=unit)
    return Estimate(
        value=float(held["value"]),
        low=held.get("low"),
        high=held.get("high"),
        unit=held.get("unit", unit),
    )


def _acceptance(row: dict[str, Any]) -> Acceptance:
    return Acceptance(
        metric=row["metric"],
        comparison=row["comparison"],
        goal=row["goal"],
        value=row["value"],
        low=row["low"],
        high=row["high"],
        holds=row["holds"],
        against=row.get("against"),
    )


def _engines(result: dict[str, Any]) -> tuple[EngineFigures, ...]:
    arms = {name: result[name] for name in ("naive", "champion") if result.get(name)}
    arms |= result.get("baselines") or {}
    engines = []
    for name, held in arms.items():
        metrics = {
            metric: estimate
            for metric, figure in held.get("metrics", held).items()
            if isinstance(figure, dict) and (estimate := _estimate(figure, "")) is not None
        }
        engines.append(EngineFigures(name=name, metrics=metrics))
    return tuple(engines)


def _champion(
    result: dict[str, Any],
    trials: tuple[TrialEntry, ...],
    candidates: tuple[CandidateEntry, ...],
) -> str | None:
    named = result.get("champion_candidate")
    if named is not None:
        return str(named)
    kept = [
        trial.candidate
        for trial in trials
        if trial.verdict == "kept" and trial.stage in (NAIVE, SEARCH)
    ]
    known = {entry.candidate for entry in candidates}
    return next((name for name in reversed(kept) if name in known), None)
