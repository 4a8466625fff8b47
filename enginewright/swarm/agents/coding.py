"""A coder as one of the loop's proposers: rounds of conversations, until one hands something in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enginewright.plan import Plan
from enginewright.swarm.agents.accounts import Account
from enginewright.swarm.agents.claims import next_proposal
from enginewright.swarm.agents.desk import RunDesk
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.open_shelf import offered_library
from enginewright.swarm.agents.views import told_brief
from enginewright.swarm.proposer import Proposal
from enginewright.swarm.run import Run
from enginewright.swarm.workbench import Finding, Say
from enginewright.variation.agents.conversation import Coder, Ended
from enginewright.variation.agents.exchange import Message, Provider
from enginewright.variation.agents.patience import Pace, Patience
from enginewright.variation.agents.prompt import SYSTEM, brief
from enginewright.variation.agents.recording import Recorded
from enginewright.variation.agents.workspace import Workspace

MOST_FRUITLESS = 3
"""So many rounds in a row without a submission end a coder's part in a run."""

MakeProvider = Callable[[], Provider]


class Coding:
    """One coder of a run. All it knows of earlier rounds is in the archive."""

    def __init__(
        self,
        run: Run,
        grounds: Grounds,
        account: Account,
        make_provider: MakeProvider,
        *,
        patience: Patience | None = None,
    ) -> None:
        """`make_provider` is called for each round: connections belong to its event loop."""
        self._run = run
        self._grounds = grounds
        self._account = account
        self._make_provider = make_provider
        self._patience = patience or Patience()
        self._pace = Pace(requests_per_minute=account.agent.limits.requests_per_minute)
        self._is_out = False
        self.title = f"coder:{account.agent.title}"

    def propose(self, champion: Plan, say: Say) -> Proposal | None:
        """The plan of the next submission; None if the coder is through: nothing may be spent, no
        answer is to be had, or several rounds bore nothing."""
        while True:
            proposal = next_proposal(self._grounds, self.title, champion, say)
            if proposal is not None:
                return proposal
            if self._is_out or self._run.journal.budget.why_stop() is not None:
                return None
            self._round(say)

    def learn(self, proposal: Proposal, finding: Finding) -> None:
        """Verdicts are read from the archive."""

    def _round(self, say: Say) -> None:
        with self._run.stages.stage("converse"):
            ended = asyncio.run(self._converse())
        for number, held in ended.items():
            self._account.ended(number, held)
            say(f"{self.title}: conversation {number}: {held.kind}: {held.detail}")
        kinds = {held.kind for held in ended.values()}
        # What none of a round got, the next one will not get either.
        self._is_out = kinds <= {"budget", "provider"} or self._fruitless() >= MOST_FRUITLESS

    async def _converse(self) -> dict[int, Ended]:
        """One round: as many conversations as the target allows, in workspaces of their own."""
        agent = self._account.agent
        provider = self._make_provider()
        first = self._account.next_conversation
        numbers = list(range(first, first + agent.limits.concurrent))
        if isinstance(provider, Recorded):
            numbers = [number for number in numbers if number < provider.conversations]
        coder = Coder(
            provider=provider,
            limits=agent.limits,
            purse=self._account.purse,
            pace=self._pace,
            patience=self._patience,
            redactor=self._grounds.redactor,
            one_at_a_time=asyncio.Lock(),
        )
        budget = self._run.journal.budget
        left = max(0.0, budget.left_seconds - budget.reserve_seconds)
        ended: dict[int, Ended] = {}
        tasks = {
            number: asyncio.create_task(self._one(coder, number, slot))
            for slot, number in enumerate(numbers)
        }
        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=left)
            for number, task in tasks.items():
                ended[number] = await _outcome(task)
        finally:
            await provider.close()
        return ended

    async def _one(self, coder: Coder, number: int, slot: int) -> Ended:
        workspace = self._workspace(slot)
        desk = RunDesk(self._grounds, self.title, workspace, conversation=number)
        opening = (
            Message(role="system", text=SYSTEM),
            Message(role="user", text=brief(told_brief(self._grounds))),
        )
        return await coder.converse(number, opening, desk, self._account.books())

    def _workspace(self, slot: int) -> Workspace:
        """A fresh one: what an earlier conversation left would make this one another."""
        root = self._grounds.workspace(f"coder-{self._account.agent.title}-{slot}")
        Workspace(root, ()).remove()
        return lay_out(self._grounds, root)

    def _fruitless(self) -> int:
        """Rounds' worth of conversations since the last that handed something in."""
        state = self._grounds.state
        bore: set[int] = set()
        count = 0
        for event in state.archive.events(state.run):
            if event.details.get("agent") == self.title and event.kind == "submitted":
                bore.add(event.details["conversation"])
            elif event.kind == "conversation" and self._is_mine(event.details):
                count = 0 if event.details["conversation"] in bore else count + 1
        return count // self._account.agent.limits.concurrent

    def _is_mine(self, details: dict[str, Any]) -> bool:
        return bool(details["agent"] == self._account.agent.title)


async def _outcome(task: asyncio.Task[Ended]) -> Ended:
    """How a conversation ended; one that the run's time cut short is over too."""
    if not task.done():
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return Ended(kind="budget", detail="the run has no time left for it", turns=0)


def lay_out(grounds: Grounds, root: Path) -> Workspace:
    """A workspace with the kernels on offer, the champion's plan and the guide; an agent's own
    files in it stay."""
    library = offered_library(grounds.state, grounds.shelf)
    base = sorted(grounds.shelf.base.folder.glob("*.rs"))
    names = {path.name for path in base}
    added = {
        path.name: path
        for kernel in library.values()
        for path in kernel.files
        if path.name not in names
    }
    champion = grounds.state.plan(grounds.state.champion())
    return Workspace.make(
        root, [*base, *added.values()], plan=champion.to_json(), guide=grounds.guide
    )
