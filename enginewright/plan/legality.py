"""Whether a plan keeps every contract: of its graph, its kernels, the machine and the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from enginewright.errors import PlanError
from enginewright.model.graph import Graph, Op
from enginewright.plan.constants import op_constants, op_rows, stored_dtype, touches_cache
from enginewright.plan.contracts import Kernel, Library, StepName, nearest
from enginewright.plan.expression import holds
from enginewright.plan.plan import CachePlan, Group, Plan, StepPlan

MOST_BUFFERS = 8
"""`MAX_BUFFERS` of kernels/cpu/abi.rs."""
MOST_WEIGHTS = 16
"""`MAX_WEIGHTS` of kernels/cpu/abi.rs."""
MATRICES = {"linear": 1, "embed": MOST_WEIGHTS, "experts": 1}
"""How many of an op's first weights are looked at for their stored type; those of `experts` are of
one type."""
SIBLINGS = ("linear", "head_norm", "rope")
"""Kinds that may stand side by side in a group: projections of one input, norms and ropes of
queries and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What machine and target permit."""

    features: frozenset[str]
    """Features of the processor, as /proc/cpuinfo names them."""
    numerics: frozenset[str]
    """Approximations that the target allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What a group shares with the rest of the engine."""

    inputs: tuple[str, ...]
    """Buffers read from outside, in order of first use."""
    outputs: tuple[str, ...]
    """Buffers read outside (or the answer), in order of production."""


def boundary(graph: Graph, ops: Sequence[Op]) -> Boundary:
    """External inputs and outputs of a group, in the order the host hands them over."""
    inside = {op.id for op in ops}
    made = [name for op in ops for name in op.outputs]
    inputs = dict.fromkeys(name for op in ops for name in op.inputs if name not in made)
    nobody: frozenset[str] = frozenset()
    outputs = [
        name for name in made if name == graph.output or graph.readers.get(name, nobody) - inside
    ]
    return Boundary(inputs=tuple(inputs), outputs=tuple(outputs))


def check_plan(plan: Plan, graph: Graph, library: Library, allowed: Allowed) -> None:
    """Everything that can be known of a plan without running it.

    Raises: PlanError naming step, group, value and what was expected.
    """
    if plan.graph != graph.sha256:
        raise PlanError(
            f"the plan is for graph {plan.graph[:12]}; this graph is {graph.sha256[:12]}",
            hint="make the plan again from this graph",
        )
    wanted = {"prefill", "decode"} if graph.kind == "decoder" else {"encode"}
    if set(plan.steps) != wanted:
        raise PlanError(f"steps are {sorted(plan.steps)}; a {graph.kind} has {sorted(wanted)}")
    for name, step in plan.steps.items():
        _check_coverage(name, step, graph)
        for group in step.groups:
            check_group(group, name, step, graph=graph, library=library, cache=plan.cache)
    for what, used, permitted, hint in (
        ("numerics", plan.numerics, allowed.numerics, "allow them in the target's [numerics]"),
        ("requires", plan.requires, allowed.features, "choose other kernels for this machine"),
    ):
        missing = sorted(set(used) - permitted)
        if missing:
            raise PlanError(f"{what}: {', '.join(missing)} not permitted", hint=hint)


def _check_coverage(name: str, step: StepPlan, graph: Graph) -> None:
    planned = [op for group in step.groups for op in group.ops]
    known = {op.id for op in graph.ops}
    for op_id, count in Counter(planned).items():
        if op_id not in known:
            raise PlanError(f"step {name}: unknown op `{op_id}`", hint=nearest(op_id, list(known)))
        if count > 1:
            raise PlanError(f"step {name}: op `{op_id}` is computed {count} times")
    missing = known - set(planned)
    if missing:
        raise PlanError(f"step {name}: no group computes op `{min(missing)}`")
    repeated = [i for i, count in Counter(group.id for group in step.groups).items() if count > 1]
    if repeated:
        raise PlanError(f"step {name}: two groups are called `{repeated[0]}`")
    written: set[str] = set()
    filled: set[int] = set()
    for op in (graph.op(op_id) for op_id in planned):
        late = [buffer for buffer in op.inputs if buffer not in written]
        if late:
            raise PlanError(f"step {name}: op `{op.id}` reads `{late[0]}` before it is written")
        written.update(op.outputs)
        if op.kind == "kv_write":
            filled.add(op.integer("layer"))
        if op.kind == "attention" and op.integer("layer") not in filled:
            raise PlanError(f"step {name}: op `{op.id}` reads its cache before it is written")


def check_group(
    group: Group,
    step_name: StepName,
    step: StepPlan,
    *,
    graph: Graph,
    library: Library,
    cache: CachePlan,
) -> None:
    """Whether one group keeps its kernel's contract.

    Raises: PlanError naming what breaks it.
    """
    where = f"step {step_name}, group {group.id} ({', '.join(group.ops)}), kernel {group.kernel}"
    kernel = library.named(group.kernel)
    ops = [graph.op(op_id) for op_id in group.ops]
    problem = (
        _shape_problem(kernel, ops, graph)
        or _wiring_problem(ops, graph)
        or _contract_problem(kernel, ops, graph, step_name=step_name, cache=cache)
        or _parameter_problem(kernel, group.parameters)
        or _constraint_problem(kernel, ops, graph, step=step, parameters=group.parameters)
    )
    if problem is not None:
        raise PlanError(f"{where}: {problem}")


def _shape_problem(kernel: Kernel, ops: list[Op], graph: Graph) -> str | None:
    kinds = [op.kind for op in ops]
    if not ops or not kernel.matches(kinds):
        return f"ops `{' '.join(kinds)}` do not match its pattern `{kernel.contract.pattern}`"
    edge = boundary(graph, ops)
    # Those of experts are handed over in a table of any length.
    weights = sum(len(op.weights) for op in ops)
    for what, count, most in (
        ("inputs", len(edge.inputs), MOST_BUFFERS),
        ("outputs", len(edge.outputs), MOST_BUFFERS),
        ("weights", 0 if "experts" in kinds else weights, MOST_WEIGHTS),
    ):
        if count > most:
            return f"has {count} {what}; the kernel contract has room for {most}"
    layers = {op.integer("layer") for op in ops if "layer" in op.attributes}
    return (
        f"touches the caches of layers {sorted(layers)}; expected one" if len(layers) > 1 else None
    )


def _wiring_problem(ops: list[Op], graph: Graph) -> str | None:
    """Neighbouring matrices share their input, neighbouring norms of heads and ropes may each have
    their own, every other op goes on with what the group made, and what is used up inside is not
    wanted outside."""
    for before, after in pairwise(ops):
        if before.kind == after.kind == "linear" and before.inputs != after.inputs:
            return f"`{before.id}` and `{after.id}` read different inputs"
    made: set[str] = set()
    used: set[str] = set()
    for number, op in enumerate(ops):
        is_sibling = number > 0 and op.kind in SIBLINGS and ops[number - 1].kind == op.kind
        if number > 0 and not is_sibling and not made & set(op.inputs):
            return f"`{op.id}` reads nothing that the group made"
        used |= made & set(op.inputs)
        made.update(op.outputs)
        if len(set(op.inputs)) != len(op.inputs):
            return f"`{op.id}` reads one buffer twice"
    lost = used & set(boundary(graph, ops).outputs)
    return f"`{min(lost)}` is used up inside, but read outside the group too" if lost else None


def _contract_problem(
    kernel: Kernel, ops: list[Op], graph: Graph, *, step_name: StepName, cache: CachePlan
) -> str | None:
    contract = kernel.contract
    if step_name not in contract.steps:
        return f"serves {', '.join(contract.steps)}, not {step_name}"
    first = ops[0]
    rows = graph.buffers[first.inputs[0]].rows if first.inputs else op_rows(graph, first)
    if rows not in contract.rows:
        return f"rows are {rows}; it takes {', '.join(contract.rows)}"
    for op in ops:
        tables = op.weights[: MATRICES.get(op.kind, 0)]
        for name in tables:
            if stored_dtype(graph, name) not in contract.matrices:
                return (
                    f"`{name}` is stored as {stored_dtype(graph, name)}; "
                    f"it takes {', '.join(contract.matrices) or 'no matrices'}"
                )
    if not touches_cache(ops):
        return None
    if contract.cache is None:
        return "touches the cache, which its contract does not mention"
    if cache.dtype not in contract.cache.dtypes or cache.layout not in contract.cache.layouts:
        return (
            f"the cache is {cache.dtype}, {cache.layout}; it takes "
            f"{', '.join(contract.cache.dtypes)} in {', '.join(contract.cache.layouts)}"
        )
    return None


def _parameter_problem(kernel: Kernel, parameters: dict[str, int]) -> str | None:
    known = kernel.contract.parameters
    for name, value in parameters.items():
        if name not in known:
            return f"unknown parameter `{name}`; {nearest(name, list(known))}"
        if value not in known[name].values:
            return f"parameter {name} is {value}; expected one of {known[name].values}"
    missing = sorted(set(known) - set(parameters))
    return f"parameter {missing[0]} has no value" if missing else None


def _constraint_problem(
    kernel: Kernel, ops: list[Op], graph: Graph, *, step: StepPlan, parameters: dict[str, int]
) -> str | None:
    shared: dict[str, int | str] = {"ROWS": step.rows, "SELECTED": step.selected, "OPS": len(ops)}
    shared |= {f"PARAM_{name}": value for name, value in parameters.items()}
    for constraint in kernel.contract.constraints:
        for op in ops:
            own = {
                f"OP_{name}": int(value) if value.isdecimal() else value
                for name, value in op_constants(graph, op).items()
            }
            if not holds(constraint, shared | own, where=kernel.source.name):
                return f"constraint `{constraint}` does not hold for `{op.id}`"
    return None
