"""Time per group against its floor, from the host's profile and the graph's costs.

`profile.json` is a list; each entry has `step` (name of the step), `rows`, `segments`, `selected`,
`context` (its size), `profile` (what `enginewright-engine profile` prints), `op_costs` (by op id:
`kind`, `bytes`, `flops`), `bytes_per_second` and `flops_per_second` (of this machine, with the
threads that the profile used). `profiled_step` makes one.
"""

from __future__ import annotations

import statistics
from typing import Any

from enginewright.delivery.report.material import GroupTime
from enginewright.model import Graph
from enginewright.model.cost import StepShape, step_cost


def profiled_step(
    step: str,
    graph: Graph,
    shape: StepShape,
    profile: dict[str, Any],
    *,
    rates: tuple[float, float],
) -> dict[str, Any]:
    """One entry of `profile.json`; `rates` are bytes and float32 operations a second."""
    costs = step_cost(graph, shape).ops
    return {
        "step": step,
        "rows": shape.rows,
        "segments": shape.segments,
        "selected": shape.selected,
        "context": shape.context,
        "profile": profile,
        "op_costs": {
            cost.op: {
                "kind": cost.kind,
                "bytes": cost.weight_bytes + cost.cache_bytes,
                "flops": cost.flops,
            }
            for cost in costs
        },
        "bytes_per_second": rates[0],
        "flops_per_second": rates[1],
    }


def group_times(profile: list[dict[str, Any]]) -> tuple[GroupTime, ...]:
    """Groups of one kernel and the same op kinds, summed: the layers of a model are one row."""
    found = []
    for entry in profile:
        name = _step_name(entry)
        sums: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
        for group in entry["profile"]["groups"]:
            costs = [entry["op_costs"][op] for op in group["ops"]]
            floor = 1e9 * max(
                sum(cost["bytes"] for cost in costs) / entry["bytes_per_second"],
                sum(cost["flops"] for cost in costs) / entry["flops_per_second"],
            )
            kinds = " ".join(cost["kind"] for cost in costs)
            measured = statistics.median(group["nanoseconds"])
            sums.setdefault((group["kernel"], kinds), []).append((group["id"], measured, floor))
        found += [
            GroupTime(
                step=name,
                group=members[0][0],
                kernel=kernel,
                ops=kinds,
                calls=len(members),
                measured_ns=sum(measured for _, measured, _ in members),
                floor_ns=sum(floor for _, _, floor in members),
            )
            for (kernel, kinds), members in sums.items()
        ]
    return tuple(found)


def _step_name(entry: dict[str, Any]) -> str:
    rows = entry["rows"]
    words = f"{entry['step']}, {rows} row" + ("s" if rows != 1 else "")
    if entry["segments"] > 1:
        words += f" of {entry['segments']} sequences"
    if entry["step"] != "encode":
        words += f", {entry['context']:,} tokens of context"
    return words
