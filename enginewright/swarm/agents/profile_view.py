"""Where the champion's time goes, by kind of group, beside what the hardware allows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from enginewright.model import StepShape, step_cost
from enginewright.model.cost import OpCost
from enginewright.plan import Plan
from enginewright.plan.choices import groups_by_signature
from enginewright.plan.contracts import StepName
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.step_timing import steps_of


def told_profile(grounds: Grounds) -> str:
    """A table for each step of the workload, the slowest kind of group first.

    Times are medians of the host's own clock, in microseconds a step, summed over groups that are
    alike; the floor is the larger of bytes over bandwidth and operations over peak.
    """
    state, target = grounds.state, grounds.subject.target
    champion = state.champion()
    plan, engine = state.plan(champion), grounds.folder.engine(champion.id)
    wanted: dict[tuple[StepName, StepShape], None] = {}
    for scenario in target.workload.scenario:
        for held in steps_of(target, scenario, plan):
            wanted.setdefault((held.step, held.shape))
    lines = [f"Champion {champion.id}"]
    for step, shape in wanted:
        with grounds.device.held():
            found = grounds.profile_step(engine, step, shape)
        lines.append(
            f"\n{step}: {shape.rows} rows of {shape.segments} sequences, context {shape.context}"
        )
        if found is None:
            lines.append("- it could not be profiled")
            continue
        spent = {group["id"]: median(group["nanoseconds"]) for group in found["groups"]}
        whole = sum(spent.values()) or 1.0
        rows = sorted(_rows(grounds, plan, step, shape, spent), reverse=True)
        lines += [
            f"- {measured / 1e3:9.1f} us, floor {floor / 1e3:9.1f} us, {measured / whole:4.0%}: "
            + what
            for measured, floor, what in rows
        ]
    return "\n".join(lines)


def _rows(
    grounds: Grounds, plan: Plan, step: StepName, shape: StepShape, spent: dict[str, float]
) -> list[tuple[float, float, str]]:
    """Nanoseconds, floor in nanoseconds and words of each kind of group."""
    graph = grounds.subject.graph
    value_bytes = 2 if plan.cache.dtype == "f16" else 4
    costs = {cost.op: cost for cost in step_cost(graph, shape, cache_value_bytes=value_bytes).ops}
    found = []
    for groups in groups_by_signature(plan, graph, step).values():
        kinds = " ".join(graph.op(op).kind for op in groups[0].ops)
        floor = sum(_floor(grounds, plan, [costs[op] for op in held.ops]) for held in groups)
        measured = sum(spent.get(held.id, 0.0) for held in groups)
        what = f"{len(groups)}x `{kinds}` by {groups[0].kernel} ({' '.join(groups[0].ops)})"
        found.append((measured, floor, what))
    return found


def _floor(grounds: Grounds, plan: Plan, costs: Sequence[OpCost]) -> float:
    machine = grounds.subject.machine
    moved = sum(cost.weight_bytes + cost.cache_bytes for cost in costs)
    flops = sum(cost.flops for cost in costs)
    return 1e9 * max(
        moved / machine.read_bytes_per_second(plan.threads),
        flops / machine.peak_flops_per_second(plan.threads),
    )
