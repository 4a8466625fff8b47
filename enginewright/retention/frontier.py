"""Candidates that no other beats in latency, throughput and memory at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a kept candidate costs and gives."""

    candidate: str
    """Its id."""
    latency_ms: float
    """Lower is better."""
    tokens_per_s: float
    """Higher is better."""
    memory_bytes: int
    """Peak; lower is better."""

    def dominates(self, other: Point) -> bool:
        """At least as good in all three, better in one."""
        mine = (self.latency_ms, -self.tokens_per_s, self.memory_bytes)
        theirs = (other.latency_ms, -other.tokens_per_s, other.memory_bytes)
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def frontier(points: Iterable[Point]) -> list[Point]:
    """The points that none dominates, in the order given."""
    held = list(points)
    return [point for point in held if not any(other.dominates(point) for other in held)]
