"""Rows of the archive, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

RunState = Literal["running", "finished", "abandoned"]
TrialState = Literal["queued", "running", "finished"]
VerdictKind = Literal["kept", "rejected", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run of the factory on one target."""

    id: str
    """Name of the run."""
    target_sha256: str
    """Digest of the resolved target."""
    target: dict[str, Any]
    """The resolved target."""
    state: RunState
    """`running` also when the process died: such a run can be resumed. `abandoned`: it
    never will."""
    created_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRecord:
    """An unproven engine, and why it was proposed."""

    id: str
    """Unique in the archive."""
    run: str
    """Run that proposed it."""
    parent: str | None
    """Candidate it was made from; None for the first."""
    tactic: str
    """Name of the tactic."""
    hypothesis: str
    """Why it should be better: an opinion, never a measurement."""
    predicted_effect: float
    """Expected ratio of speed to the parent's, an opinion."""
    plan_sha256: str
    """Digest of its plan, in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """What the judge was asked, and found."""

    id: str
    """Unique in the archive."""
    candidate: str
    """Candidate on trial."""
    stage: str
    """What was asked: `naive`, `search`, `confirm`."""
    state: TrialState
    """How far it is."""
    verdict: VerdictKind | None
    """None until finished."""
    reason: str | None
    """One line of the judge; None until finished."""
    evidence: str | None
    """Digest of the evidence in the store; None until finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the run's history."""

    sequence: int
    """Rises by at least one."""
    run: str
    """Its run."""
    at: float
    """Seconds since 1970."""
    kind: str
    """What happened."""
    details: dict[str, Any]
    """Particulars."""
