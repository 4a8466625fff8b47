"""What a tactic sees, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from enginewright.model.graph import Graph
from enginewright.plan import Allowed, Choice, Library, Plan, candidates_for, regroup
from enginewright.plan.contracts import StepName

KnownChoices = dict[tuple[object, ...], list[Choice]]
"""Legal kernels by step, its size, the form of the cache and the run of ops."""


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
    known: KnownChoices = field(default_factory=dict, repr=False)
    """Legal kernels of runs of ops, once they were worked out."""

    def choices(self, step: StepName, ops: Sequence[str]) -> list[Choice]:
        """Every legal kernel for exactly these ops, at its default parameters."""
        held = self.plan.steps[step]
        cache = (self.plan.cache.dtype, self.plan.cache.layout)
        key = (step, held.rows, held.selected, cache, tuple(ops))
        if key not in self.known:
            self.known[key] = candidates_for(
                self.plan, self.graph, self.library, step=step, ops=ops, allowed=self.allowed
            )
        return self.known[key]

    def regrouped(self, step: StepName, choices: Sequence[Choice]) -> Plan:
        """The plan with each choice as a group of its own; see `plan.regroup`."""
        return regroup(self.plan, self.graph, self.library, step=step, choices=choices)


@dataclass(frozen=True, kw_only=True)
class Idea:
    """A plan that might be better, and why."""

    make: Callable[[], Plan]
    """Makes the plan: hundreds of ideas are had for each one that is tried."""
    tactic: str
    """Name of the tactic."""
    hypothesis: str
    """Why it should be better, in a sentence."""
    predicted_effect: float
    """Expected speed over the plan it came from, as a ratio."""

    @cached_property
    def plan(self) -> Plan:
        """The plan. It may be illegal: whoever uses it checks.

        Raises: PlanError if the idea makes no plan at all (a setting out of range).
        """
        return self.make()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactic:
    """One way to better a plan."""

    name: str
    """Unique; `snake_case`."""
    propose: Callable[[Context], list[Idea]]
    """Ideas for a plan, best guess first; empty if the tactic has nothing to say."""
