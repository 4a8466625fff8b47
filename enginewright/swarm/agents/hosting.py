"""Guests as one of the loop's proposers: what outside agents hand in, whenever they do."""

from __future__ import annotations

import time
from collections.abc import Callable

from enginewright.plan import Plan
from enginewright.swarm.agents.claims import next_proposal
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.inbox import handed_in
from enginewright.swarm.proposer import Proposal
from enginewright.swarm.run import Run
from enginewright.swarm.workbench import Finding, Say

POLL_SECONDS = 0.2
"""How often the archive is asked."""


class Hosting:
    """All guests of a run. They work in processes of their own; the archive is between."""

    title = "guest"

    def __init__(
        self,
        run: Run,
        grounds: Grounds,
        *,
        wait_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`wait_seconds`: how long to wait for a submission when nobody else proposes."""
        self._run = run
        self._grounds = grounds
        self._wait_seconds = wait_seconds
        self._sleep = sleep

    def propose(self, champion: Plan, say: Say) -> Proposal | None:
        """A submission that waits now; None if none does."""
        for agent in sorted({held.agent for held in handed_in(self._grounds.state)}):
            if agent.startswith("guest:"):
                proposal = next_proposal(self._grounds, agent, champion, say)
                if proposal is not None:
                    return proposal
        return None

    def wait(self, champion: Plan, say: Say) -> Proposal | None:
        """The next submission, as long as the target and the run's budget wait for it."""
        deadline = time.monotonic() + self._wait_seconds
        say(f"waiting for guests, {self._wait_seconds / 60:.1f} min at most")
        while time.monotonic() < deadline and self._run.journal.budget.why_stop() is None:
            proposal = self.propose(champion, say)
            if proposal is not None:
                return proposal
            self._sleep(POLL_SECONDS)
        return None

    def learn(self, proposal: Proposal, finding: Finding) -> None:
        """Verdicts are read from the archive."""
