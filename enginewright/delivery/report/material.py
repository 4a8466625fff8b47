"""What a report tells, as plain records. Nothing measured has a default; what a run has not reached
is None, or an empty tuple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["kept", "rejected", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A measured value and its interval."""

    value: float
    """The estimate."""
    low: float | None
    """Lower end of its interval; None where the judge gave none."""
    high: float | None
    """Upper end of its interval."""
    unit: str
    """Unit; `x` for a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One criterion of the target, as the confirmation found it."""

    metric: str
    """Name of the metric."""
    comparison: str
    """`>=`, `<=` and their like."""
    goal: float
    """What the target asks for."""
    value: float | None
    """What was found; None if it could not be measured."""
    low: float | None
    """Lower end of its interval."""
    high: float | None
    """Upper end of its interval."""
    holds: bool
    """Whether the judge accepts."""
    against: str | None = None
    """What the goal is relative to: `naive`, a baseline or `floor`; None if it is absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigures:
    """One engine's metrics in the confirmation."""

    name: str
    """`naive`, `champion`, or the name of a baseline."""
    metrics: dict[str, Estimate]
    """By metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateEntry:
    """A candidate, and why it was proposed."""

    candidate: str
    """Its id."""
    parent: str | None
    """Candidate it was made from; None for the first."""
    tactic: str
    """Who proposed it."""
    hypothesis: str
    """Why it should be better: an opinion."""
    predicted_effect: float
    """Expected speed-up over its parent: an opinion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEntry:
    """One trial of a candidate."""

    trial: str
    """Its id."""
    candidate: str
    """Id of the candidate."""
    stage: str
    """What was asked of the judge."""
    verdict: Verdict | None
    """None while it is not finished."""
    reason: str | None
    """One line of the judge."""
    evidence: str | None
    """Digest of the evidence in the store."""
    effect: Estimate | None
    """Measured speed over the champion's of that moment; None where nothing was timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTime:
    """One group of a step of the champion, against the least time its bytes need."""

    step: str
    """Step and its size in words: `decode, 1 row at 64 tokens of context`."""
    group: str
    """Id of the group."""
    kernel: str
    """Kernel that computes it."""
    ops: str
    """Its ops in order, without the layer."""
    calls: int
    """Groups of this kind in the step (one a layer, say), summed here."""
    measured_ns: float
    """Median over repeats, summed over the calls."""
    floor_ns: float | None
    """Its bytes at the measured read bandwidth, or its flops at the peak if that takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TacticSummary:
    """What one tactic gave."""

    tactic: str
    """Its name."""
    proposed: int
    """Candidates it made."""
    screened_out: int
    """Those that micro-timings set aside before a whole-engine trial."""
    tried: int
    """Those that had a whole-engine trial."""
    kept: int
    """Those that became champion."""
    gain: float
    """Product of the measured effects of those kept; 1 if none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAgainstSame:
    """The champion measured against itself (A/A), before anything was believed of a difference."""

    ratio: tuple[float, float]
    """95 % interval of one slot over the other, which should hold 1."""
    blocks: int
    """Blocks of it."""
    sd: float
    """Standard deviation of a block's log ratio."""
    autocorrelation: float
    """Of neighbouring blocks."""
    detectable: float
    """Smallest speed-up that a trial sees with 90 % power: 0.01 is one per cent."""
    holds_one: bool
    """Whether the slots do not differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelEntry:
    """A candidate whose verdict was known beforehand."""

    kind: str
    """Which."""
    expected: str
    """What an honest judge says."""
    verdict: str
    """What the judge said."""
    as_expected: bool | None
    """None for a void, which says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionGap:
    """How fast something looked when it was selected, and how fast it was when measured again."""

    name: str
    """Tactic, or `whole search`."""
    selected: Estimate
    """What the search saw."""
    confirmed: Estimate
    """The same comparison on inputs that the search never saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTest:
    """How the judge itself was put to the test."""

    same: SameAgainstSame | None
    """None if the search kept nothing to measure against itself."""
    sentinels: tuple[SentinelEntry, ...]
    """In the order judged."""
    false_promotion: str
    """Clones promoted over all runs of the archive, with the interval, in words."""
    gaps: tuple[SelectionGap, ...]
    """Steps that were measured again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMaterial:
    """All that a report tells of one run."""

    run: str
    """Id of the run."""
    target: str
    """Name of the target."""
    state: str
    """`finished`, or how far it is."""
    started: str
    """When it began, UTC."""
    objective: str | None = None
    """Metric that the loop drove."""
    speedup: Estimate | None = None
    """Champion over naive, confirmed on fresh inputs."""
    floor_share: Estimate | None = None
    """Share of this machine's floor that the champion reaches."""
    acceptance: tuple[Acceptance, ...] = ()
    """The target's criteria."""
    engines: tuple[EngineFigures, ...] = ()
    """Naive, champion, baselines."""
    champion: str | None = None
    """Candidate that won."""
    candidates: tuple[CandidateEntry, ...] = ()
    """Every candidate, in the order proposed."""
    trials: tuple[TrialEntry, ...] = ()
    """In the order queued."""
    groups: tuple[GroupTime, ...] = ()
    """The champion's profile."""
    tactics: tuple[TacticSummary, ...] = ()
    """What each tactic gave."""
    judge: JudgeTest | None = None
    """How the judge was tested; None before anything was."""
    environment: tuple[tuple[str, str], ...] = ()
    """Machine and tools: name and value."""
    inputs: tuple[tuple[str, str], ...] = ()
    """What makes the run repeatable: digests, seeds, threads, budget."""
    recheck: tuple[str, ...] = ()
    """Commands that repeat the findings."""
    notes: tuple[str, ...] = ()
    """What the reader must know: what is missing, and why."""
