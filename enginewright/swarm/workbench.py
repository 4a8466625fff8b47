"""What the loop asks of the rooms around it; tests put a replay in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from enginewright.model import Graph
from enginewright.plan import Allowed, Library, Plan
from enginewright.retention.records import VerdictKind
from enginewright.target import Machine, Target

Say = Callable[[str], None]
"""Takes a line of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a run is about; the same for all its candidates."""

    target: Target
    """What is asked for."""
    graph: Graph
    """The model."""
    checkpoint: Path
    """Folder of the weights."""
    checkpoint_sha256: str
    """Digest of the weights."""
    machine: Machine
    """What it runs on."""
    library: Library
    """The kernels there are."""
    allowed: Allowed
    """What machine and target permit."""
    threads: int
    """Threads of the engine."""
    digests: dict[str, str]
    """Digests of all that a finding depends on: target, weights, kernels, host, machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one step of the judge's work found, ready for the archive."""

    kind: VerdictKind
    """Kept, rejected or void."""
    headline: str
    """One line for people, with the reason and its values."""
    evidence: dict[str, Any]
    """All behind it."""
    speedup: dict[str, float] | None
    """`value`, `low`, `high` of the candidate's speed over the champion's; None if not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """What is claimed of the champion: measured on inputs that the search never saw."""

    naive: dict[str, dict[str, Any]]
    """Metrics of the naive engine: `value`, `low`, `high`, `unit`."""
    champion: dict[str, dict[str, Any]]
    """Metrics of the champion."""
    baselines: dict[str, dict[str, dict[str, Any]]]
    """Metrics of each baseline."""
    speedup: dict[str, float]
    """Champion over naive: `value`, `low`, `high`."""
    floor_share: dict[str, Any]
    """Champion's share of this machine's floor: `value`, `low`, `high`, `unit`."""
    acceptance: list[dict[str, Any]]
    """Each criterion: `metric`, `comparison`, `goal`, `against`, `value`, `low`, `high`,
    `holds`."""
    wrong: str | None
    """How the champion's outputs leave the target's bounds; None if they do not."""
    closeness: dict[str, dict[str, Any]]
    """How near the champion's distributions are to the reference engine's, by tokens of context."""
    blocks: int
    """Blocks of each arm."""
    disturbed_blocks: int
    """Blocks during which others used the machine, though they were repeated."""
    evidence: dict[str, Any]
    """All behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Several engines side by side on inputs that the search never saw."""

    log_ratios: dict[str, list[float]]
    """By engine: logarithm of how many times faster than the one compared with, of each block."""
    failed: dict[str, str]
    """Engines that could not be measured, with the reason."""
    blocks: int
    """Blocks of each."""
    disturbed_blocks: int
    """Blocks during which others used the machine, though they were repeated."""
    evidence: dict[str, Any]
    """All behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The shipped engine."""

    binary: Path
    """The program."""
    manifest: Path
    """Its manifest."""


class Workbench(Protocol):
    """Building, judging and delivering engines. A candidate's failure is a finding; an error
    that is
    raised is the machine's or ours."""

    def naive_plan(self, subject: Subject) -> Plan:
        """The first plan."""

    def build(self, subject: Subject, plan: Plan, candidate: Path, engine: Path) -> Finding | None:
        """Write the candidate's files and build its engine; a rejection, or None if it is built."""

    def check_naive(self, subject: Subject, engine: Path, say: Say) -> Finding:
        """Whether the naive engine computes what the original implementation does."""

    def check_kernels(
        self, subject: Subject, plan: Plan, engine: Path, seconds: float
    ) -> Finding | None:
        """Check kernel objects that were never checked; a rejection, or None if none is wrong."""

    def measure_bar(
        self, subject: Subject, naive: Path, work: Path, say: Say
    ) -> dict[str, dict[str, Any]]:
        """Metrics of the naive engine and each baseline, by arm: `value`, `low`, `high`, `unit`."""

    def trial(self, subject: Subject, arms: Arms, rules: TrialRules, say: Say) -> Finding:
        """The whole-engine trial of a candidate against the champion."""

    def calibrate(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> dict[str, Any]:
        """The champion against itself: `sd`, `low`, `high`, `detectable` and what is behind."""

    def confirm(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> Confirmed:
        """Measure champion, naive engine and baselines on fresh inputs."""

    def compare(
        self,
        subject: Subject,
        arms: Arms,
        engines: Mapping[str, Path],
        base: str,
        blocks: int,
        say: Say,
    ) -> Compared:
        """Measure engines side by side, each against `base`."""

    def deliver(
        self, subject: Subject, arms: Arms, candidate: Path, out: Path, evidence: list[str]
    ) -> Delivered:
        """Link the champion into one program."""

    def ask_once(self, subject: Subject, delivered: Delivered) -> dict[str, str]:
        """Start the delivered program and ask it one thing: `request`, `answer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRules:
    """What a campaign asks of one trial."""

    limits: dict[str, float] = field(default_factory=dict)
    """Most allowed of protected metrics."""
    level: float | None = None
    """Error rate that the trial may spend; None leaves it to the judge's settings."""
    smallest_effect: float | None = None
    """Speed-up below which a candidate is not kept; None leaves it to the judge's settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The engines of a comparison."""

    naive: Path
    """Engine that judges outputs."""
    champion: Path
    """Best engine so far."""
    candidate: Path
    """Engine on trial; the champion itself in a confirmation."""
    work: Path
    """Scratch folder."""
