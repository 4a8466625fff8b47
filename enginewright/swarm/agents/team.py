"""Several proposers as one: whoever proposed least has the next turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from enginewright.plan import Plan
from enginewright.swarm.proposer import Proposal, Proposer
from enginewright.swarm.run_state import SEARCH, RunState
from enginewright.swarm.workbench import Finding, Say

TUNER = "tuner"
GUESTS = "guest"


class Host(Protocol):
    """Waits for those who come when they like."""

    def wait(self, champion: Plan, say: Say) -> Proposal | None:
        """Their next proposal; None if none came."""


def author_of(tactic: str) -> str:
    """The member whose candidates carry a tactic: guests are one, and all that is no agent's is the
    tuner's."""
    kind = tactic.partition(":")[0]
    return tactic if kind == "coder" else GUESTS if kind == "guest" else TUNER


class Team:
    """Takes turns. Who proposed what is in the archive: a resumed run goes on with the same turn.

    The first candidate is the tuner's where it takes part: from the naive engine to fused kernels
    is known ground.
    """

    def __init__(
        self, state: RunState, members: Mapping[str, Proposer], *, host: Host | None
    ) -> None:
        """`members` by title, in the order of turns; `host` waits for guests when nobody has a
        proposal."""
        self._state = state
        self._members = dict(members)
        self._host = host

    def propose(self, champion: Plan, say: Say) -> Proposal | None:
        """The proposal of the first that has one."""
        for name in self._turns():
            proposal = self._members[name].propose(champion, say)
            if proposal is not None:
                return proposal
        return None if self._host is None else self._host.wait(champion, say)

    def learn(self, proposal: Proposal, finding: Finding) -> None:
        """Tell whoever proposed it."""
        member = self._members.get(author_of(proposal.tactic))
        if member is not None:
            member.learn(proposal, finding)

    def _turns(self) -> list[str]:
        counts = dict.fromkeys(self._members, 0)
        for trial in self._state.trials(SEARCH):
            # Sentinels and the shortlist's engines are nobody's turn.
            name = author_of(self._state.candidate(trial.candidate).tactic)
            if name in counts:
                counts[name] += 1
        return sorted(counts, key=lambda name: counts[name])
