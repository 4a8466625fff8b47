"""Submissions as the archive has them: handed in, taken up, judged.

Events: `submitted` (digest of the submission, agent, kernels), `taken` (the plan that it became)
and `turned_away` (why it became none). Whoever hands in may be another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from enginewright.swarm.run_state import SEARCH, RunState
from enginewright.variation.agents.submission import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """A submission of the archive."""

    id: str
    """First digits of its digest."""
    digest: str
    """Of its text, in the store."""
    agent: str
    """Who."""
    conversation: int
    """Coders: the conversation that it came out of; 0 for guests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a submission."""

    state: Literal["waiting", "turned_away", "judging", "kept", "rejected", "void"]
    """`judging`: its candidate has no verdict yet."""
    candidate: str | None
    """What it became."""
    trial: str | None
    """Its trial, as `enginewright show` takes it."""
    reason: str | None
    """One line of the judge."""


def hand_in(state: RunState, submission: Submission, *, conversation: int = 0) -> HandedIn:
    """Keep a submission; handing in the same again changes nothing."""
    digest = state.store.put(submission.to_json().encode())
    held = HandedIn(
        id=digest[:12], digest=digest, agent=submission.agent, conversation=conversation
    )
    if digest not in {known.digest for known in handed_in(state)}:
        state.archive.note(
            state.run,
            "submitted",
            {
                "submission": digest,
                "agent": submission.agent,
                "conversation": conversation,
                "kernels": sorted(submission.kernels),
                "hypothesis": submission.claim.hypothesis,
                "predicted_effect": submission.claim.predicted_effect,
            },
        )
    return held


def handed_in(state: RunState) -> list[HandedIn]:
    """All submissions of a run, in order."""
    return [
        HandedIn(
            id=event.details["submission"][:12],
            digest=event.details["submission"],
            agent=event.details["agent"],
            conversation=event.details["conversation"],
        )
        for event in state.archive.events(state.run)
        if event.kind == "submitted"
    ]


def waiting(state: RunState, agent: str) -> list[HandedIn]:
    """Those of an agent that nothing became of yet, by conversation: which of several at once came
    first is chance."""
    # Taken by a process that was killed before it kept the candidate: it waits still.
    tried = state.tried_plans()
    settled = {
        event.details["submission"]
        for event in state.archive.events(state.run)
        if event.kind == "turned_away" or (event.kind == "taken" and event.details["plan"] in tried)
    }
    found = [
        held for held in handed_in(state) if held.agent == agent and held.digest not in settled
    ]
    return sorted(found, key=lambda held: held.conversation)


def submission(state: RunState, held: HandedIn) -> Submission:
    """What was handed in."""
    return Submission.from_json(state.store.get(held.digest))


def take(state: RunState, held: HandedIn, plan: str) -> None:
    """It became the plan with this digest."""
    state.archive.note(
        state.run, "taken", {"submission": held.digest, "agent": held.agent, "plan": plan}
    )


def turn_away(state: RunState, held: HandedIn, reason: str) -> None:
    """It became no candidate."""
    state.archive.note(
        state.run,
        "turned_away",
        {"submission": held.digest, "agent": held.agent, "reason": reason},
    )


def fate(state: RunState, held: HandedIn) -> Fate:
    """What became of a submission so far."""
    events = [
        event
        for event in state.archive.events(state.run)
        if event.kind in ("taken", "turned_away") and event.details["submission"] == held.digest
    ]
    if not events:
        return Fate(state="waiting", candidate=None, trial=None, reason=None)
    details: dict[str, Any] = events[-1].details
    if events[-1].kind == "turned_away":
        return Fate(state="turned_away", candidate=None, trial=None, reason=str(details["reason"]))
    for candidate in state.archive.candidates(state.run):
        if candidate.plan_sha256 == details["plan"]:
            trial = next(trial for trial in state.trials(SEARCH) if trial.candidate == candidate.id)
            return Fate(
                state=trial.verdict or "judging",
                candidate=candidate.id,
                trial=trial.id,
                reason=trial.reason,
            )
    return Fate(state="judging", candidate=None, trial=None, reason=None)
