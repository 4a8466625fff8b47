"""From the naive plan to one that is fused and vectorised everywhere, in a single candidate."""

from __future__ import annotations

from collections.abc import Mapping

from enginewright.model.graph import Graph
from enginewright.plan import Allowed, Choice, Library, Plan, candidates_for, regroup
from enginewright.plan.contracts import StepName

_LONGEST = 8
"""Most ops of one group that is tried."""


def big_step(
    plan: Plan,
    graph: Graph,
    library: Library,
    *,
    allowed: Allowed,
    rank: Mapping[str, float] | None = None,
) -> Plan:
    """The plan in which each group is the longest run, from the first op on, with a fast kernel.

    Of several kernels for one run, that of the highest `rank` is taken (measured; unknown is 0),
    then one that reads the packed copy that a tied table has anyway (it is in memory once), then
    one that uses an approximation the target allows, then the one that needs most of the
    processor. Ops that no fast kernel serves stay as they are.

    Raises: PlanError if the plan does not fit the graph.
    """
    changed = plan
    for step in plan.steps:
        choices = _cover(changed, graph, library, step=step, allowed=allowed, rank=rank or {})
        if choices:
            changed = regroup(changed, graph, library, step=step, choices=choices)
    return changed


def _cover(
    plan: Plan,
    graph: Graph,
    library: Library,
    *,
    step: StepName,
    allowed: Allowed,
    rank: Mapping[str, float],
) -> list[Choice]:
    ids = [op.id for op in graph.ops]
    choices: list[Choice] = []
    first = 0
    while first < len(ids):
        taken = 1
        for length in range(min(_LONGEST, len(ids) - first), 0, -1):
            found = [
                choice
                for choice in candidates_for(
                    plan,
                    graph,
                    library,
                    step=step,
                    ops=ids[first : first + length],
                    allowed=allowed,
                )
                if not choice.kernel.startswith("naive_")
            ]
            if found:
                choices.append(
                    max(
                        found,
                        key=lambda choice: (
                            rank.get(choice.kernel, 0.0),
                            _shares_a_tied_table(graph, library, choice),
                            len(library.named(choice.kernel).contract.numerics),
                            len(library.named(choice.kernel).contract.requires),
                            choice.kernel,
                        ),
                    )
                )
                taken = length
                break
        first += taken
    return choices


def _shares_a_tied_table(graph: Graph, library: Library, choice: Choice) -> bool:
    """Whether the group embeds from the packed copy of a matrix that another op multiplies with."""
    if library.named(choice.kernel).contract.layout == "stored":
        return False
    ops = [graph.op(op_id) for op_id in choice.ops]
    tables = {op.weights[0] for op in ops if op.kind == "embed"}
    return any(op.kind == "linear" and op.weights[0] in tables for op in graph.ops)
