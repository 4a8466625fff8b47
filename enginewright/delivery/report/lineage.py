"""Where each candidate stands: its depth in the tree, its latest verdict, and how fast it was."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.delivery.report.material import (
    CandidateEntry,
    Estimate,
    ReportMaterial,
    TrialEntry,
    Verdict,
)
from enginewright.swarm.run_state import SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A candidate in the tree."""

    entry: CandidateEntry
    """The candidate."""
    order: int
    """Place in the order proposed, from 0."""
    depth: int
    """Ancestors it has."""
    verdict: Verdict | None
    """Latest verdict; None if it had no finished trial."""
    is_ancestor: bool
    """Whether the champion descends from it, or is it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One finished search trial, on the scale of speed over the first engine."""

    order: int
    """Place in the order finished, from 1."""
    trial: TrialEntry
    """The trial."""
    tactic: str
    """Who proposed its candidate."""
    before: float
    """Product of the effects kept until then: where the champion stood."""
    speedup: Estimate | None
    """`before` times the measured effect; None where nothing was timed."""
    after: float
    """Where the champion stood then."""


def tree(material: ReportMaterial) -> list[Node]:
    """Every candidate, in the order proposed."""
    by_id = {entry.candidate: entry for entry in material.candidates}
    latest = {trial.candidate: trial.verdict for trial in material.trials if trial.verdict}
    ancestors = {entry.candidate for entry in ancestry(material)}
    depths: dict[str, int] = {}
    for name in by_id:
        chain = _chain(by_id, name)
        depths[name] = len(chain) - 1
    return [
        Node(
            entry=entry,
            order=order,
            depth=depths[entry.candidate],
            verdict=latest.get(entry.candidate),
            is_ancestor=entry.candidate in ancestors,
        )
        for order, entry in enumerate(material.candidates)
    ]


def ancestry(material: ReportMaterial) -> list[CandidateEntry]:
    """The champion's ancestors from the first one, and itself last; empty without a champion."""
    by_id = {entry.candidate: entry for entry in material.candidates}
    if material.champion is None or material.champion not in by_id:
        return []
    return _chain(by_id, material.champion)


def _chain(by_id: dict[str, CandidateEntry], name: str) -> list[CandidateEntry]:
    chain: list[CandidateEntry] = []
    at: str | None = name
    while at is not None and at in by_id and by_id[at] not in chain:
        chain.append(by_id[at])
        at = by_id[at].parent
    return chain[::-1]


def search_steps(material: ReportMaterial) -> list[Step]:
    """Finished trials that compared a candidate with the champion of that moment."""
    tactics = {entry.candidate: entry.tactic for entry in material.candidates}
    steps: list[Step] = []
    champion = 1.0
    for trial in material.trials:
        if trial.verdict is None or trial.stage != SEARCH:
            continue
        speedup = None
        if trial.effect is not None:
            speedup = _scaled(trial.effect, champion)
        after = speedup.value if speedup and trial.verdict == "kept" else champion
        steps.append(
            Step(
                order=len(steps) + 1,
                trial=trial,
                tactic=tactics.get(trial.candidate, ""),
                before=champion,
                speedup=speedup,
                after=after,
            )
        )
        champion = after
    return steps


def _scaled(effect: Estimate, factor: float) -> Estimate:
    return Estimate(
        value=effect.value * factor,
        low=None if effect.low is None else effect.low * factor,
        high=None if effect.high is None else effect.high * factor,
        unit=effect.unit,
    )
