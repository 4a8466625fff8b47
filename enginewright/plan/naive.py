"""The first plan: every op alone, with the kernel that says plainly what it means."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.errors import PlanError
from enginewright.model.graph import Graph
from enginewright.plan.choices import complete
from enginewright.plan.contracts import Library, StepName
from enginewright.plan.plan import CachePlan, Group, MemoryPlan, Plan, PoolPlan, StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an engine has room for."""

    prefill_rows: int = 256
    """Most prompt tokens of one step; for encoders, most tokens of one batch."""
    prefill_selected: int = 64
    """Most wanted rows of a prefill step: how many tokens are scored at once."""
    decode_rows: int = 8
    """Most sequences that get a token in one step."""
    context: int = 2048
    """Positions of a sequence."""
    slots: int = 8
    """Sequences alive at once."""


def naive_plan(
    graph: Graph, library: Library, threads: int, *, capacity: Capacity | None = None
) -> Plan:
    """The plan of one group for each op, float32 throughout.

    Raises: PlanError if the library lacks a naive kernel or a capacity is impossible.
    """
    room = capacity or Capacity()
    sizes: dict[StepName, tuple[int, int]]
    if graph.kind == "decoder":
        sizes = {
            "prefill": (room.prefill_rows, min(room.prefill_selected, room.prefill_rows)),
            "decode": (room.decode_rows, room.decode_rows),
        }
    else:
        sizes = {"encode": (room.prefill_rows, room.prefill_rows)}
    if (
        min(room.prefill_rows, room.prefill_selected, room.decode_rows, room.context, room.slots)
        < 1
    ):
        raise PlanError(f"{room}: every number is at least 1", hint="correct the workload")
    missing = [op for op in graph.ops if f"naive_{op.kind}" not in library]
    if missing:
        other = " Build this model for the CPU." if library.device == "cuda" else ""
        raise PlanError(
            f"{library.folder}: op `{missing[0].id}` has kind `{missing[0].kind}`, for which there "
            f"is no kernel `naive_{missing[0].kind}` on {library.device}",
            hint=f"every op kind needs one; docs/adding-a-model.md says how to write it.{other}",
        )
    groups = tuple(
        Group(id=f"g{number}", ops=(op.id,), kernel=f"naive_{op.kind}")
        for number, op in enumerate(graph.ops)
    )
    plan = Plan(
        graph=graph.sha256,
        device=library.device,
        threads=threads,
        pool=PoolPlan(spin_microseconds=200, pin=True),
        memory=MemoryPlan(huge_pages=False),
        cache=CachePlan(
            dtype="f32",
            layout="position_major",
            capacity=min(room.context, graph.dimensions.context),
            slots=room.slots,
        ),
        steps={
            name: StepPlan(rows=rows, selected=selected, groups=groups)
            for name, (rows, selected) in sizes.items()
        },
    )
    return complete(plan, graph, library)
