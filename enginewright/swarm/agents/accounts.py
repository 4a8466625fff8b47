"""What agents asked, and what it cost, in the archive: a limit holds over every process of a run.

Events: `asking` before an attempt is sent (what was set aside), `exchange` when it ended (what
came, in the store, and what it cost), `conversation` when one is over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from enginewright.retention import Event
from enginewright.swarm.events import Journal
from enginewright.swarm.run_state import RunState
from enginewright.target import Agent
from enginewright.variation.agents.conversation import Books, Ended
from enginewright.variation.agents.exchange import Failure, Reply, Request
from enginewright.variation.agents.prompt import PROMPT_VERSION
from enginewright.variation.agents.recording import Exchange, exchange_json
from enginewright.variation.agents.redaction import Redactor
from enginewright.variation.agents.spending import Purse, Reserved, Spent
from enginewright.variation.agents.tools import tools_version


@dataclass(slots=True, kw_only=True)
class Account:
    """One agent's purse and history in one run."""

    agent: Agent
    """Who."""
    state: RunState
    """The archive's view."""
    journal: Journal
    """Where it is told."""
    redactor: Redactor
    """Keeps secrets out."""
    purse: Purse = field(init=False)
    _attempts: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits, prices = self.agent.limits, self.agent.prices
        if self._is_replay:
            # Nothing is sent, so nothing is spent.
            limits = limits.model_copy(update={"tokens": 1 << 62, "money": None})
            prices = None
        self.purse = Purse(limits=limits, prices=prices)
        self.purse.spent = spent(self._events(), self.agent.title)

    @property
    def next_conversation(self) -> int:
        """Number of the next conversation: one that a dead process left is not gone on with."""
        mine = [
            event.details["conversation"]
            for event in self._events()
            if event.kind in ("asking", "exchange", "conversation")
            and event.details["agent"] == self.agent.title
        ]
        return 1 + max(mine, default=-1)

    def books(self) -> Books:
        """Where conversations write down what they ask."""
        return Books(asking=self._asking, asked=self._asked)

    def ended(self, number: int, ended: Ended) -> None:
        """A conversation is over."""
        self.journal.tell(
            "conversation",
            agent=self.agent.title,
            conversation=number,
            ended=ended.kind,
            detail=ended.detail,
            turns=ended.turns,
        )

    def _asking(self, request: Request, reserved: Reserved) -> None:
        key = (request.conversation, request.turn)
        self._attempts[key] = self._attempts.get(key, 0) + 1
        most = Spent() if self._is_replay else reserved.spent
        self.state.archive.note(
            self.state.run,
            "asking",
            {
                **self._place(request),
                "input_tokens": most.input_tokens,
                "output_tokens": most.output_tokens,
                "money": most.money,
            },
        )

    def _asked(self, request: Request, outcome: Reply | Failure, cost: Spent) -> None:
        if self._is_replay:
            # The usage is the recording's: it was paid for when it was recorded.
            cost = self.purse.spent = Spent()
        place = self._place(request)
        exchange = exchange_json(
            request,
            outcome,
            agent=self.agent.title,
            attempt=place["attempt"],
            model=self.agent.model or "recorded",
            versions={"prompt": PROMPT_VERSION, "tools": tools_version()},
            redactor=self.redactor,
        )
        digest = self.state.store.put(json.dumps(exchange, ensure_ascii=False).encode())
        self.journal.tell(
            "exchange",
            **place,
            exchange=digest,
            provider=self.agent.provider,
            input_tokens=cost.input_tokens,
            cached_tokens=cost.cached_tokens,
            output_tokens=cost.output_tokens,
            money=cost.money,
            failure=outcome.kind if isinstance(outcome, Failure) else None,
            detail=outcome.detail if isinstance(outcome, Failure) else None,
            spent_tokens=self.purse.spent.tokens,
            spent_money=self.purse.spent.money,
        )

    @property
    def _is_replay(self) -> bool:
        return self.agent.provider == "recorded"

    def _place(self, request: Request) -> dict[str, Any]:
        key = (request.conversation, request.turn)
        return {
            "agent": self.agent.title,
            "conversation": request.conversation,
            "turn": request.turn,
            "attempt": self._attempts[key],
        }

    def _events(self) -> list[Event]:
        return self.state.archive.events(self.state.run)


def spent(events: list[Event], agent: str) -> Spent:
    """What an agent spent in a run; an attempt that a killed process left open counts in full."""
    total = Spent()
    open_attempts: dict[tuple[int, int, int], Spent] = {}
    for event in events:
        held = event.details
        if event.kind not in ("asking", "exchange") or held["agent"] != agent:
            continue
        key = (held["conversation"], held["turn"], held["attempt"])
        cost = Spent(
            input_tokens=held["input_tokens"],
            cached_tokens=held.get("cached_tokens", 0),
            output_tokens=held["output_tokens"],
            money=held["money"],
        )
        if event.kind == "asking":
            open_attempts[key] = cost
        else:
            open_attempts.pop(key, None)
            total += cost
    for cost in open_attempts.values():
        total += cost
    return total


def exchanges(state: RunState, agent: str | None = None) -> list[Exchange]:
    """Every exchange of a run, in order; of one agent, if named."""
    return [
        json.loads(state.store.get(event.details["exchange"]))
        for event in state.archive.events(state.run)
        if event.kind == "exchange" and agent in (None, event.details["agent"])
    ]
