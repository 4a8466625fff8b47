"""Submissions as proposals: each is applied to the champion of the moment in which it is taken."""

from __future__ import annotations

from enginewright.errors import PlanError
from enginewright.plan import Plan
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.inbox import HandedIn, submission, take, turn_away, waiting
from enginewright.swarm.proposer import Proposal
from enginewright.swarm.workbench import Say
from enginewright.variation.agents.change import apply_change


def next_proposal(grounds: Grounds, agent: str, champion: Plan, say: Say) -> Proposal | None:
    """The first waiting submission of `agent` that makes a new legal plan; what makes none is
    turned away with the reason. None if nothing waits.

    What is taken is in the archive before the loop sees it.
    """
    for held in waiting(grounds.state, agent):
        proposal = _proposal(grounds, held, champion)
        if isinstance(proposal, Proposal):
            return proposal
        turn_away(grounds.state, held, proposal)
        say(f"{agent}: submission {held.id} became no candidate: {proposal}")
    return None


def _proposal(grounds: Grounds, held: HandedIn, champion: Plan) -> Proposal | str:
    """The proposal, or why there is none."""
    state, subject = grounds.state, grounds.subject
    handed = submission(state, held)
    try:
        library = grounds.shelf.draft(handed.kernels)
        plan = apply_change(handed.change, champion, subject.graph, library, subject.allowed)
    except PlanError as error:
        return f"it does not fit the champion: {error.message}"
    if plan.sha256 in state.tried_plans():
        return "the same plan was tried before"
    take(state, held, plan.sha256)
    grounds.shelf.add(handed.kernels)
    return Proposal(
        plan=plan,
        tactic=handed.agent,
        hypothesis=handed.claim.hypothesis,
        predicted_effect=handed.claim.predicted_effect,
    )
