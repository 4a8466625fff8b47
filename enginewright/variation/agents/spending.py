"""What an agent may still spend. Set aside before a request is sent, settled when it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from enginewright.target import AgentLimits, Prices
from enginewright.variation.agents.exchange import Usage

LEAST_ANSWER_TOKENS = 256
"""An answer with less room is not worth its question."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens, and their price."""

    input_tokens: int = 0
    """Read, cached ones included."""
    cached_tokens: int = 0
    """Read from the server's cache."""
    output_tokens: int = 0
    """Written."""
    money: float = 0.0
    """In the currency of the prices; 0 without prices."""

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            money=self.money + other.money,
        )


def price_of(usage: Usage, prices: Prices | None) -> Spent:
    """What a request cost. Tokens from a cache cost as much as others if no price is given."""
    money = 0.0
    if prices is not None:
        cached = prices.input if prices.cached_input is None else prices.cached_input
        fresh = usage.input_tokens - usage.cached_tokens
        money = (
            fresh * prices.input
            + usage.cached_tokens * cached
            + usage.output_tokens * prices.output
        ) / _MILLION
    return Spent(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        money=money,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """The most that one request can cost."""

    input_tokens: int
    """Bound on what is read."""
    answer_tokens: int
    """Most that may be written: what the request must ask for."""
    spent: Spent
    """The same with its price."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """One agent's limits and what is gone of them, over all processes of a run."""

    limits: AgentLimits
    """Of the target."""
    prices: Prices | None
    """Of the target; frozen with it."""
    spent: Spent = field(default_factory=Spent)
    """Settled."""
    _reserved: list[Reserved] = field(default_factory=list)

    def reserve(self, input_tokens: int) -> Reserved | None:
        """Set aside the most that a request of at most `input_tokens` can cost; the answer gets
        what room is left. None if the limits do not allow it: then it must not be sent."""
        tokens = self.limits.tokens - self._gone().tokens - input_tokens
        answer = min(self.limits.answer_tokens, tokens)
        if self.limits.money is not None and self.prices is not None:
            left = self.limits.money - self._gone().money
            left -= input_tokens * self._dearest_input() / _MILLION
            if self.prices.output > 0:
                answer = min(answer, int(left * _MILLION / self.prices.output))
            elif left < 0:
                return None
        if answer < LEAST_ANSWER_TOKENS or self.limits.money == 0:
            return None
        most = Spent(
            input_tokens=input_tokens,
            output_tokens=answer,
            money=self._price(input_tokens, answer),
        )
        held = Reserved(input_tokens=input_tokens, answer_tokens=answer, spent=most)
        self._reserved.append(held)
        return held

    def settle(self, reserved: Reserved, usage: Usage | None) -> Spent:
        """The request ended; what it cost (None: nothing)."""
        self._reserved.remove(reserved)
        cost = Spent() if usage is None else price_of(usage, self.prices)
        self.spent += cost
        return cost

    def why_empty(self) -> str:
        """What is used up, for people."""
        gone = self._gone()
        text = f"{gone.tokens:,} of {self.limits.tokens:,} tokens"
        if self.limits.money is not None and self.prices is not None:
            text += f", {gone.money:.4f} of {self.limits.money:.4f} {self.prices.currency}"
        return f"{text} are spent or set aside; the next request could cost more than what is left"

    def _gone(self) -> Spent:
        gone = self.spent
        for held in self._reserved:
            gone += held.spent
        return gone

    def _dearest_input(self) -> float:
        assert self.prices is not None, "asked with prices only. This is a bug."
        return max(self.prices.input, self.prices.cached_input or 0.0)

    def _price(self, input_tokens: int, output_tokens: int) -> float:
        if self.prices is None:
            return 0.0
        return (
            input_tokens * self._dearest_input() + output_tokens * self.prices.output
        ) / _MILLION
