"""Who proposes: the loop asks for the next plan and tells what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from enginewright.plan import Plan
from enginewright.swarm.workbench import Finding, Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan that might be better."""

    plan: Plan
    """The plan."""
    tactic: str
    """Who made it."""
    hypothesis: str
    """Why it should be better."""
    predicted_effect: float
    """Expected speed over its parent's."""


class Proposer(Protocol):
    """A source of proposals. It must give the same sequence for the same history."""

    def propose(self, champion: Plan, say: Say) -> Proposal | None:
        """The next plan to try, made from the champion's; None if there is nothing left."""

    def learn(self, proposal: Proposal, finding: Finding) -> None:
        """What became of a proposal."""
