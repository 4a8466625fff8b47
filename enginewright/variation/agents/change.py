"""`change.json`: what an agent wants done otherwise than in the champion's plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from enginewright.errors import PlanError, UsageError
from enginewright.model.graph import Graph, Op
from enginewright.plan import (
    Allowed,
    CachePlan,
    Choice,
    Library,
    MemoryPlan,
    Plan,
    PoolPlan,
    check_plan,
    group_signature,
    regroup,
)
from enginewright.plan.choices import with_settings
from enginewright.plan.contracts import CacheDtype, CacheLayout, StepName, nearest

MOST_USES = 64
"""Entries of `uses`."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Use(_Record):
    """A kernel for a run of ops, and for every run like it (other layers)."""

    step: StepName
    """`prefill`, `decode` or `encode`."""
    ops: tuple[str, ...] = Field(min_length=1, max_length=16)
    """Ids of neighbouring ops of the graph, in order: one group."""
    kernel: str = Field(min_length=1, max_length=80)
    """A kernel of the library, or the name of a file of one's own."""
    parameters: dict[str, int] = {}
    """Parameters other than the kernel's defaults."""


class CacheChange(_Record):
    """Form of the cache."""

    dtype: CacheDtype
    """Element type."""
    layout: CacheLayout
    """Order inside a slot."""


class SettingsChange(_Record):
    """Settings of the plan; what is left out stays."""

    pool: PoolPlan | None = None
    """How threads wait."""
    memory: MemoryPlan | None = None
    """How memory is asked for."""
    cache: CacheChange | None = None
    """Form of the cache."""


class Change(_Record):
    """The whole file."""

    uses: tuple[Use, ...] = Field(default=(), max_length=MOST_USES)
    """Kernels, applied in order."""
    settings: SettingsChange = SettingsChange()
    """Settings."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be otherwise."""
        return not self.uses and self.settings == SettingsChange()


def read_change(text: str) -> Change:
    """Parse change.json.

    Raises: UsageError naming the field and its value.
    """
    try:
        return Change.model_validate(_tuples(json.loads(text)))
    except json.JSONDecodeError as error:
        raise UsageError(f"change.json is not JSON: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise UsageError(
            f"change.json: `{field}` is {str(first['input'])[:200]!r}; {first['msg']}",
            hint='{"uses": [{"step": "decode", "ops": ["L0.silu_mul"], "kernel": "NAME"}], '
            '"settings": {}}',
        ) from error


def apply_change(
    change: Change, plan: Plan, graph: Graph, library: Library, allowed: Allowed
) -> Plan:
    """The plan with the change made, and checked against every contract.

    Raises: PlanError that says what does not fit.
    """
    for use in change.uses:
        if use.step not in plan.steps:
            raise PlanError(f"step `{use.step}`: the plan has {', '.join(plan.steps)}")
        library.named(use.kernel)
        choices = [
            Choice(ops=ops, kernel=use.kernel, parameters=use.parameters)
            for ops in _alike(graph, plan, use)
        ]
        plan = regroup(plan, graph, library, step=use.step, choices=choices)
    settings: dict[str, Any] = {
        name: value
        for name in ("pool", "memory")
        if (value := getattr(change.settings, name)) is not None
    }
    if change.settings.cache is not None:
        form = change.settings.cache.model_dump()
        settings["cache"] = CachePlan.model_validate(plan.cache.model_dump() | form)
    if settings:
        plan = with_settings(plan, graph, library, **settings)
    check_plan(plan, graph, library, allowed)
    return plan


def _alike(graph: Graph, plan: Plan, use: Use) -> list[tuple[str, ...]]:
    """Every run of neighbouring ops that is like the one named, which comes first."""
    ids = [op.id for op in graph.ops]
    if use.ops[0] not in ids:
        raise PlanError(f"unknown op `{use.ops[0]}`", hint=nearest(use.ops[0], ids))
    first, length = ids.index(use.ops[0]), len(use.ops)
    if tuple(ids[first : first + length]) != use.ops:
        raise PlanError(
            f"ops {' '.join(use.ops)} are no neighbours; "
            f"after `{use.ops[0]}` come {' '.join(ids[first + 1 : first + 6])}"
        )
    kinds = [op.kind for op in graph.ops]
    wanted = kinds[first : first + length]

    def signature(ops: Sequence[Op]) -> str:
        return group_signature(graph, ops, use.step, plan.steps[use.step], cache=plan.cache)

    named = signature(graph.ops[first : first + length])
    found = [use.ops]
    taken = set(use.ops)
    for start in range(len(ids) - length + 1):
        ops = graph.ops[start : start + length]
        is_free = taken.isdisjoint(op.id for op in ops)
        if is_free and kinds[start : start + length] == wanted and signature(ops) == named:
            found.append(tuple(op.id for op in ops))
            taken.update(found[-1])
    return found


def _tuples(value: Any) -> Any:
    """JSON arrays as tuples: the records are frozen and strict."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return value
