"""The first proposals of a cold run: from the naive plan to fused fast kernels in one candidate."""

from __future__ import annotations

from enginewright.plan import Plan
from enginewright.swarm.proposer import Proposal
from enginewright.swarm.run import Run
from enginewright.swarm.workbench import Finding, Say
from enginewright.variation import big_step


class FirstSteps:
    """Proposes the big step once."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def propose(self, champion: Plan, say: Say) -> Proposal | None:
        """The big step, unless this run has it."""
        held = self._run.state.archive.candidates(self._run.state.run)
        if any(candidate.tactic == "big_step" for candidate in held):
            return None
        subject = self._run.subject
        plan = big_step(champion, subject.graph, subject.library, allowed=subject.allowed)
        return Proposal(
            plan=plan,
            tactic="big_step",
            hypothesis="fused, vectorised kernels everywhere move each byte once",
            predicted_effect=5.0,
        )

    def learn(self, proposal: Proposal, finding: Finding) -> None:
        """Nothing depends on it."""
