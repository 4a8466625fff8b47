"""What a tactic sees, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from enginewright.model.graph import Graph
from enginewright.plan import Allowed, Library, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a search stands."""

    graph: Graph
    """What the model computes."""
    library: Library
    """Kernels to choose from."""
    allowed: Allowed
    """What machine and target permit."""
    plan: Plan
    """The plan to better."""
    naive: Plan
    """The plan that the search began with."""
    kept: tuple[Plan, ...]
    """Other plans that were champions, oldest first."""
    cores: int
    """Cores that the engine may use."""
    rank: Mapping[str, float] = field(default_factory=dict)
    """What memory says of kernels: higher is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """A plan that might be better, and why."""

    plan: Plan
    """The plan. It may be illegal: whoever uses it checks."""
    tactic: str
    """Name of the tactic."""
    hypothesis: str
    """Why it should be better, in a sentence."""
    predicted_effect: float
    """Expected speed over the plan it came from, as a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactic:
    """One way to better a plan."""

    name: str
    """Unique; `snake_case`."""
    propose: Callable[[Context], list[Idea]]
    """Ideas for a plan, best guess first; empty if the tactic has nothing to say."""
