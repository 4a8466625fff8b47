"""After the search: the champion, its nearest rivals and the champion without each of its steps,
measured once more, in fresh processes, on a workload that the search never saw.

The best of many trials is too good to be true, and every step was judged on the champion of its
day. Here all stand side by side: a rival that is faster after all takes the champion's place, what
each accepted step is worth in the end is known, and so is how much the search flattered itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from enginewright.evaluation.statistics import chance_of_sign_flips, estimate, holm
from enginewright.plan.undo import without_change
from enginewright.retention import CandidateRecord, TrialRecord
from enginewright.swarm.bring_up import build_if_absent
from enginewright.swarm.run import Run
from enginewright.swarm.run_state import ABLATION, SEARCH, SHORTLIST
from enginewright.swarm.workbench import Compared

MOST_ARMS = 8
"""Engines of a shortlist, the champion among them."""
BLOCKS = 6
"""Passes of each: the fewest that an exact test can decide on."""
ALPHA = 0.05
"""Chance, over all rivals together (Holm 1979), that one as slow takes the champion's place."""
ARM_SECONDS = 2.5
"""Time of one pass of a fast engine, roughly."""

Kind = Literal["champion", "rival", "without"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One engine of the shortlist."""

    kind: Kind
    """The champion, an engine that was champion before, or the champion without a step."""
    candidate: CandidateRecord
    """It."""
    step: CandidateRecord | None
    """The kept candidate whose step is taken out."""


def shortlist_seconds(arms: int = MOST_ARMS) -> float:
    """Time that a shortlist takes, roughly."""
    return BLOCKS * arms * ARM_SECONDS


def run_shortlist(run: Run, *, seconds: float) -> dict[str, Any] | None:
    """Measure the shortlist within `seconds`, and let a faster rival take the champion's place.

    What an earlier process of the run measured is taken from the archive. None if the search kept
    nothing, or there is nobody to compare with.
    """
    before = run.state.trials(SHORTLIST)
    if before and before[0].state == "finished":
        return dict(run.state.evidence(before[0])["shortlist"])
    champion = run.state.champion()
    if champion.parent is None:
        return None
    room = min(MOST_ARMS, int(seconds / (BLOCKS * ARM_SECONDS)))
    listed = _listed(run, champion, room)
    if len(listed) < 2:
        return None
    trial = before[0] if before else run.state.archive.queue_trial(champion.id, SHORTLIST)
    run.state.archive.begin_trial(trial.id)
    engines = {held.candidate.id: run.folder.engine(held.candidate.id) for held in listed}
    with run.stages.stage("shortlist"):
        found = run.bench.compare(
            run.subject, run.champion_arms(), engines, champion.id, BLOCKS, run.journal.say
        )
    told = _told(run, listed, found)
    winner = _winner(listed, found)
    _finish(run, trial, told, found, champion, winner)
    return told


def _listed(run: Run, champion: CandidateRecord, room: int) -> list[Listed]:
    """The champion, then in turn the champion without a step and an earlier champion, the latest
    first, as far as there is room."""
    kept = [
        run.state.candidate(trial.candidate)
        for trial in run.state.trials(SEARCH)
        if trial.verdict == "kept"
    ]
    found = [Listed(kind="champion", candidate=champion, step=None)]
    for held in reversed(kept):
        if held.id != champion.id and len(found) < room:
            build_if_absent(run, held)
            found.append(Listed(kind="rival", candidate=held, step=None))
        if len(found) < room:
            without = _without(run, champion, held)
            if without is not None:
                found.append(Listed(kind="without", candidate=without, step=held))
    return found


def _without(run: Run, champion: CandidateRecord, step: CandidateRecord) -> CandidateRecord | None:
    """The champion without the change of one kept candidate, built; None if it cannot be."""
    if step.parent is None or run.state.candidate(step.parent).parent is None:
        # Without the first leap there is no fast engine.
        return None
    if step.id == champion.id:
        # That is the champion before it, which stands in the list as it is.
        return None
    plan = without_change(
        run.state.plan(champion),
        run.state.plan(run.state.candidate(step.parent)),
        run.state.plan(step),
        run.subject.graph,
        run.subject.library,
    )
    if plan is None:
        return None
    hypothesis = f"the champion without {step.tactic} of {step.id}"
    candidate, trial = _held_ablation(run, hypothesis) or run.state.add_candidate(
        plan,
        parent=champion.id,
        tactic="ablation",
        hypothesis=hypothesis,
        predicted_effect=1.0,
        stage=ABLATION,
    )
    if trial.state == "finished":
        return None
    run.state.archive.begin_trial(trial.id)
    refused = run.bench.build(
        run.subject, plan, run.folder.candidate(candidate.id), run.folder.engine(candidate.id)
    )
    if refused is not None:
        run.state.finish(trial, refused.kind, refused.headline, refused.evidence)
        return None
    return candidate


def _held_ablation(run: Run, hypothesis: str) -> tuple[CandidateRecord, TrialRecord] | None:
    """What an earlier process of the run began."""
    for trial in run.state.trials(ABLATION):
        candidate = run.state.candidate(trial.candidate)
        if candidate.hypothesis == hypothesis:
            return candidate, trial
    return None


def _told(run: Run, listed: list[Listed], found: Compared) -> dict[str, Any]:
    logs = {held.candidate.id: found.log_ratios.get(held.candidate.id, []) for held in listed}
    champion = next(held.candidate for held in listed if held.kind == "champion")
    logs[champion.id] = [0.0] * found.blocks
    arms = []
    for held in listed:
        ratio = None
        if held.kind != "champion" and logs[held.candidate.id]:
            ratio = _interval(logs[held.candidate.id])
        arms.append(
            {
                "kind": held.kind,
                "candidate": held.candidate.id,
                "tactic": (held.step or held.candidate).tactic,
                "step": None if held.step is None else held.step.id,
                "over_champion": ratio,
                "failed": found.failed.get(held.candidate.id),
            }
        )
    return {
        "blocks": found.blocks,
        "disturbed_blocks": found.disturbed_blocks,
        "arms": arms,
        "gaps": [gap for held in listed if (gap := _gap(run, held.candidate, logs)) is not None],
    }


def _gap(
    run: Run, candidate: CandidateRecord, logs: dict[str, list[float]]
) -> dict[str, Any] | None:
    """What the search saw of a step beside what the same pair shows here."""
    mine, theirs = logs.get(candidate.id), logs.get(candidate.parent or "")
    trials = [held for held in run.state.trials(SEARCH) if held.candidate == candidate.id]
    if not mine or not theirs or len(mine) != len(theirs) or not trials:
        return None
    seen = (run.state.evidence(trials[0]) or {}).get("comparison")
    if seen is None:
        return None
    return {
        "candidate": candidate.id,
        "tactic": candidate.tactic,
        "selected": {"value": seen["speedup"], "low": seen["low"], "high": seen["high"]},
        "confirmed": _interval([a - b for a, b in zip(mine, theirs, strict=True)]),
    }


def _winner(listed: list[Listed], found: Compared) -> CandidateRecord | None:
    """A rival that is surely faster than the champion; None if there is none."""
    rivals = [
        held.candidate
        for held in listed
        if held.kind == "rival" and len(found.log_ratios.get(held.candidate.id, [])) >= BLOCKS
    ]
    chances = holm([chance_of_sign_flips(found.log_ratios[held.id]) for held in rivals])
    better = [
        (estimate(found.log_ratios[held.id]).value, held)
        for held, chance in zip(rivals, chances, strict=True)
        if chance <= ALPHA
    ]
    return max(better, key=lambda pair: pair[0])[1] if better else None


def _finish(
    run: Run,
    trial: TrialRecord,
    told: dict[str, Any],
    found: Compared,
    champion: CandidateRecord,
    winner: CandidateRecord | None,
) -> None:
    for arm in told["arms"]:
        if arm["kind"] == "without":
            _finish_ablation(run, arm)
    evidence = {"shortlist": told, "evidence": found.evidence}
    if winner is None:
        headline = f"none of {len(told['arms']) - 1} others is faster on inputs never seen"
        run.state.finish(trial, "kept", headline, evidence)
    else:
        headline = f"rejected: {winner.id} is faster on inputs never seen"
        run.state.finish(trial, "rejected", headline, evidence)
        _step_back_to(run, winner)
        run.folder.point_champion_at(winner.id)
    run.journal.tell("shortlist", champion=run.state.champion().id, reason=headline, **told)


def _step_back_to(run: Run, winner: CandidateRecord) -> None:
    """Those kept after the winner and before the champion lose their place too."""
    while run.state.champion().id != winner.id:
        beaten = run.state.champion()
        trial = run.state.archive.queue_trial(beaten.id, SHORTLIST)
        run.state.archive.begin_trial(trial.id)
        headline = f"rejected: {winner.id} is faster on inputs never seen"
        run.state.finish(trial, "rejected", headline, {"beaten_by": winner.id})


def _finish_ablation(run: Run, arm: dict[str, Any]) -> None:
    trials = [held for held in run.state.trials(ABLATION) if held.candidate == arm["candidate"]]
    ratio = arm["over_champion"]
    if ratio is None:
        headline = f"void: not measured: {arm['failed']}"
        run.state.finish(trials[0], "void", headline, {"arm": arm})
        return
    headline = (
        f"rejected: without {arm['tactic']} {ratio['value']:.3f}x the champion "
        f"({ratio['low']:.3f} to {ratio['high']:.3f})"
    )
    run.state.finish(trials[0], "rejected", headline, {"arm": arm})


def _interval(logs: list[float]) -> dict[str, float]:
    held = estimate(logs)
    return {
        "value": math.exp(held.value),
        "low": math.exp(held.low),
        "high": math.exp(held.high),
    }
