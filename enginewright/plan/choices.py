"""What could be planned otherwise: legal kernels for a run of ops, and edits that keep a plan
whole.

Edits work on groups as (ops, kernel, parameters). Everything that follows from these (constants,
layouts, required features, numerics) is worked out again by `complete`, so that a plan never
contradicts itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from enginewright.errors import PlanError
from enginewright.model.graph import Graph, Op
from enginewright.plan.constants import group_constants, stored_dtype
from enginewright.plan.contracts import Kernel, Library, StepName
from enginewright.plan.legality import Allowed, check_group
from enginewright.plan.plan import CachePlan, Group, Plan, StepPlan
from enginewright.plan.signature import group_signature

CACHE_NUMERICS = {"f16": "cache_f16"}
"""Approximation that a cache element type stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One legal way to compute a run of ops."""

    ops: tuple[str, ...]
    """Ids of the ops, in order."""
    kernel: str
    """Name of the kernel."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """Parameters that differ from the kernel's defaults."""


def complete(plan: Plan, graph: Graph, library: Library) -> Plan:
    """The plan with constants, layouts, parameters, `requires` and `numerics` worked out anew;
    objects are dropped.

    Raises: PlanError for an unknown kernel or op.
    """
    kernels: dict[str, Kernel] = {}
    steps: dict[StepName, StepPlan] = {}
    for name, step in plan.steps.items():
        groups = []
        for group in step.groups:
            kernel = kernels.setdefault(group.kernel, library.named(group.kernel))
            groups.append(_complete_group(group, kernel, graph, step=step, cache=plan.cache))
        steps[name] = step.model_copy(update={"groups": tuple(groups)})
    numerics = {name for kernel in kernels.values() for name in kernel.contract.numerics}
    if graph.kind == "decoder" and plan.cache.dtype in CACHE_NUMERICS:
        numerics.add(CACHE_NUMERICS[plan.cache.dtype])
    requires = {name for kernel in kernels.values() for name in kernel.contract.requires}
    return plan.model_copy(
        update={
            "steps": steps,
            "requires": tuple(sorted(requires)),
            "numerics": tuple(sorted(numerics)),
        }
    )


def _complete_group(
    group: Group, kernel: Kernel, graph: Graph, *, step: StepPlan, cache: CachePlan
) -> Group:
    try:
        ops = [graph.op(op_id) for op_id in group.ops]
    except KeyError as error:
        raise PlanError(f"group {group.id}: the graph has no op {error}") from error
    parameters = kernel.defaults() | group.parameters
    layouts = [layout for op in ops for layout in _layouts(op, kernel, graph)]
    constants = group_constants(
        graph, ops, step.size, cache=(cache.dtype, cache.layout), parameters=parameters
    )
    return group.model_copy(
        update={
            "parameters": parameters,
            "layouts": tuple(layouts),
            "constants": constants,
            "object": None,
        }
    )


def _layouts(op: Op, kernel: Kernel, graph: Graph) -> list[str]:
    packed = kernel.contract.layout
    matrices = len(op.weights) if op.kind == "embed" else 1 if op.kind == "linear" else 0
    return [
        packed.replace("{dtype}", stored_dtype(graph, name)) if number < matrices else "stored"
        for number, name in enumerate(op.weights)
    ]


def candidates_for(
    plan: Plan,
    graph: Graph,
    library: Library,
    *,
    step: StepName,
    ops: Sequence[str],
    allowed: Allowed,
) -> list[Choice]:
    """Every legal kernel for exactly these ops, at its default parameters."""
    found = []
    for name, kernel in library.items():
        contract = kernel.contract
        is_permitted = allowed.features.issuperset(
            contract.requires
        ) and allowed.numerics.issuperset(contract.numerics)
        if not is_permitted or not kernel.matches([graph.op(op_id).kind for op_id in ops]):
            continue
        group = Group(id="candidate", ops=tuple(ops), kernel=name, parameters=kernel.defaults())
        try:
            check_group(
                group, step, plan.steps[step], graph=graph, library=library, cache=plan.cache
            )
        except PlanError:
            # Not legal here: that is the answer asked for, not a failure.
            continue
        found.append(Choice(ops=tuple(ops), kernel=name))
    return found


def matching_windows(
    graph: Graph, kernel: Kernel, *, start: str | None = None, longest: int = 8
) -> list[tuple[str, ...]]:
    """Runs of neighbouring ops (all, or those that begin at op `start`) that the kernel's pattern
    matches."""
    windows = []
    for first, op in enumerate(graph.ops):
        if start is not None and op.id != start:
            continue
        for last in range(first + 1, min(first + longest, len(graph.ops)) + 1):
            run = graph.ops[first:last]
            if kernel.matches([part.kind for part in run]):
                windows.append(tuple(part.id for part in run))
    return windows


def parameter_choices(library: Library, choice: Choice) -> list[Choice]:
    """The choice with each parameter at each other value, one at a time."""
    kernel = library.named(choice.kernel)
    current = kernel.defaults() | dict(choice.parameters)
    return [
        Choice(ops=choice.ops, kernel=choice.kernel, parameters={**choice.parameters, name: value})
        for name, parameter in kernel.contract.parameters.items()
        for value in parameter.values
        if value != current[name]
    ]


def regroup(
    plan: Plan, graph: Graph, library: Library, *, step: StepName, choices: Sequence[Choice]
) -> Plan:
    """The plan in which each choice is a group of its own. Groups that lose ops keep the rest, one
    op a group, with the naive kernels; a choice that equals a group only changes its kernel and
    parameters.

    Raises: PlanError for an unknown op or kernel, or if two choices claim one op.
    """
    taken: dict[str, Choice] = {}
    for choice in choices:
        for op_id in choice.ops:
            if op_id in taken:
                raise PlanError(f"op `{op_id}` is claimed by two choices")
            taken[op_id] = choice
    groups: list[Group] = []
    for group in plan.steps[step].groups:
        if not any(op_id in taken for op_id in group.ops):
            groups.append(group)
            continue
        for op_id in group.ops:
            owner = taken.get(op_id)
            if owner is None:
                kernel = f"naive_{graph.op(op_id).kind}"
                groups.append(Group(id=op_id, ops=(op_id,), kernel=kernel))
            elif owner.ops[-1] == op_id:
                # Where its last op stood, all its inputs are written.
                groups.append(_group_of(owner))
    return replace_groups(plan, graph, library, step=step, groups=groups)


def _group_of(choice: Choice) -> Group:
    return Group(
        id=choice.ops[0], ops=choice.ops, kernel=choice.kernel, parameters=dict(choice.parameters)
    )


def replace_groups(
    plan: Plan, graph: Graph, library: Library, *, step: StepName, groups: Sequence[Group]
) -> Plan:
    """The plan with other groups in one step, numbered in order and completed."""
    numbered = tuple(
        group.model_copy(update={"id": f"g{number}"}) for number, group in enumerate(groups)
    )
    changed = plan.steps[step].model_copy(update={"groups": numbered})
    return complete(
        plan.model_copy(update={"steps": {**plan.steps, step: changed}}), graph, library
    )


def signature_of(plan: Plan, graph: Graph, step: StepName, group: Group) -> str:
    """The signature of a group of the plan."""
    ops = [graph.op(op_id) for op_id in group.ops]
    return group_signature(graph, ops, step, plan.steps[step], cache=plan.cache)


def groups_by_signature(plan: Plan, graph: Graph, step: StepName) -> dict[str, list[Group]]:
    """The groups of a step, those that are alike together, in order of their first."""
    found: dict[str, list[Group]] = {}
    for group in plan.steps[step].groups:
        found.setdefault(signature_of(plan, graph, step, group), []).append(group)
    return found


def change_alike(
    plan: Plan,
    graph: Graph,
    library: Library,
    *,
    step: StepName,
    signature: str,
    change: Callable[[Group], Group],
) -> Plan:
    """The plan with `change` made to every group of a signature: another kernel, other parameters.

    Raises: PlanError if no group has the signature.
    """
    alike = {group.id for group in groups_by_signature(plan, graph, step).get(signature, [])}
    if not alike:
        raise PlanError(f"step {step}: no group has signature {signature}")
    groups = [change(group) if group.id in alike else group for group in plan.steps[step].groups]
    return replace_groups(plan, graph, library, step=step, groups=groups)


def with_settings(plan: Plan, graph: Graph, library: Library, **settings: object) -> Plan:
    """The plan with other `threads`, `pool`, `memory` or `cache`, completed.

    Raises: PlanError naming the first impossible value.
    """
    held = plan.model_dump(mode="python") | settings
    for name, value in settings.items():
        if hasattr(value, "model_dump"):
            held[name] = value.model_dump(mode="python")
    try:
        changed = Plan.model_validate(held)
    except ValueError as error:
        raise PlanError(f"settings {sorted(settings)}: {error}") from error
    return complete(changed, graph, library)
