"""A plan as data: groups of ops, their kernels and the engine's settings. plan.json is exactly
this."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from enginewright.errors import PlanError
from enginewright.plan.constants import StepSize
from enginewright.plan.contracts import CacheDtype, CacheLayout, Device, StepName


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PoolPlan(_Record):
    """How the threads wait."""

    spin_microseconds: int = Field(ge=0, le=10_000_000)
    """How long an idle thread watches for work before it sleeps."""
    pin: bool
    """Whether each thread stays on one core."""


class MemoryPlan(_Record):
    """How memory is asked for."""

    huge_pages: bool
    """Whether packed weights ask for 2 MiB pages."""


class CachePlan(_Record):
    """The cache of keys and values; unused by encoders."""

    dtype: CacheDtype
    """Element type."""
    layout: CacheLayout
    """Order inside a slot."""
    capacity: int = Field(ge=1, le=1 << 24)
    """Positions a slot holds."""
    slots: int = Field(ge=1, le=1 << 24)
    """Sequences alive at once."""


class Group(_Record):
    """Ops computed by one kernel."""

    id: str
    """Unique in its step."""
    ops: tuple[str, ...]
    """Ids of the graph's ops, in order."""
    kernel: str
    """Name of the kernel."""
    layouts: tuple[str, ...] = ()
    """Layout of each weight of the group, in order; `stored` = read in place."""
    parameters: dict[str, int] = {}
    """Value of every parameter of the kernel."""
    constants: dict[str, str] = {}
    """Environment of `rustc` when the kernel is compiled."""
    object: str | None = None
    """Hash of the compiled kernel; written by the build."""


class StepPlan(_Record):
    """One step graph."""

    rows: int = Field(ge=1, le=1 << 24)
    """Most rows."""
    selected: int = Field(ge=1, le=1 << 24)
    """Most selected rows."""
    groups: tuple[Group, ...]
    """In the order they run."""

    @property
    def size(self) -> StepSize:
        """Its room."""
        return StepSize(rows=self.rows, selected=self.selected)


class Plan(_Record):
    """How a graph is computed."""

    format: Literal["enginewright.plan/1"] = "enginewright.plan/1"
    """Version of this record."""
    graph: str
    """SHA-256 of graph.json."""
    device: Device = "cpu"
    """What it runs on."""
    threads: int = Field(ge=1, le=1024)
    """Threads of the pool; unused on a GPU."""
    pool: PoolPlan
    """How they wait."""
    memory: MemoryPlan
    """How memory is asked for."""
    cache: CachePlan
    """The cache of keys and values."""
    requires: tuple[str, ...] = ()
    """Processor features of all kernels, sorted."""
    numerics: tuple[str, ...] = ()
    """Approximations in use, sorted."""
    steps: dict[StepName, StepPlan]
    """`prefill` and `decode`, or `encode`."""

    def to_json(self) -> str:
        """Canonical text, a line for each group: the same plan gives the same bytes."""
        held = self.model_dump(mode="json")
        steps = held.pop("steps")
        lines = [f" {_text(name)}: {_text(value)}" for name, value in held.items()]
        lines.append(
            ' "steps": {' + ",\n  ".join(_step_text(*item) for item in steps.items()) + "}"
        )
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Parse plan.json. Whether it fits a graph is for `legality.check_plan` to say.

        Raises: PlanError naming the first wrong field.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise PlanError(
                f"plan.json: field `{field}`: {first['msg']}", hint="make the plan again"
            ) from error

    @property
    def sha256(self) -> str:
        """Digest of `to_json()`; not cached, since `model_copy` would carry it to other plans."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def group(self, step: StepName, group_id: str) -> Group:
        """The group called `group_id`.

        Raises: PlanError if there is none.
        """
        for group in self.steps[step].groups:
            if group.id == group_id:
                return group
        raise PlanError(f"step {step} has no group `{group_id}`")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _step_text(name: str, step: dict[str, Any]) -> str:
    groups = step.pop("groups")
    for group in groups:
        if group["object"] is None:
            del group["object"]
    lines = ",\n    ".join(_text(group) for group in groups)
    return f'{_text(name)}: {_text(step)[:-1]}, "groups": [\n    {lines}]}}'
