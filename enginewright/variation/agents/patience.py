"""Asking again: what may pass is tried again after a growing, bounded wait, or the server's own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from enginewright.variation.agents.exchange import Failure, Provider, Reply, Request

Sleep = Callable[[float], Awaitable[None]]
Attempt = Callable[[Request, Reply | Failure], None]
"""Told of each attempt that ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often, and how long in between."""

    attempts: int = 6
    """Most attempts of one request."""
    first_seconds: float = 1.0
    """Wait after the first failure; doubled each time."""
    most_seconds: float = 60.0
    """Longest wait of our own choosing."""
    most_asked_seconds: float = 600.0
    """Longest wait that a server may ask for; a longer one ends the request."""


@dataclass(slots=True, kw_only=True)
class Pace:
    """At most so many requests a minute, over all conversations of an agent."""

    requests_per_minute: int | None
    """None: no limit of ours."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    sleep: Sleep = asyncio.sleep
    """Waits."""
    _next: float = 0.0
    _not_before: float = field(default=0.0)

    async def wait(self) -> None:
        """Until the next request may be sent."""
        now = self.clock()
        due = max(now, self._next, self._not_before)
        if self.requests_per_minute is not None:
            self._next = due + 60.0 / self.requests_per_minute
        if due > now:
            await self.sleep(due - now)

    def hold(self, seconds: float) -> None:
        """The server asked all of us to wait."""
        self._not_before = max(self._not_before, self.clock() + seconds)


async def ask_patiently(
    provider: Provider,
    request: Request,
    *,
    patience: Patience,
    pace: Pace,
    chance: random.Random,
    may_send: Callable[[], bool],
    attempted: Attempt,
) -> Reply | Failure:
    """Ask until there is an answer, a failure that will not pass, or no patience left.

    `may_send` is asked before every attempt: an attempt costs like any other request. Each one is
    told to `attempted` as it ends.
    """
    last: Failure = Failure(kind="unaffordable", detail="nothing may be spent on it")
    for number in range(patience.attempts):
        if not may_send():
            return last
        await pace.wait()
        outcome = await provider.ask(request)
        attempted(request, outcome)
        if isinstance(outcome, Reply) or not outcome.may_pass:
            return outcome
        last = outcome
        asked = outcome.wait_seconds
        if asked is not None and asked > patience.most_asked_seconds:
            return outcome
        if asked is not None:
            # Every other conversation would be told the same.
            pace.hold(asked)
            continue
        if number + 1 < patience.attempts:
            longest = min(patience.most_seconds, patience.first_seconds * 2**number)
            # Half of it by chance: those that failed together must not come back together.
            await pace.sleep(longest * (0.5 + 0.5 * chance.random()))
    return last
