"""A plan without one of the changes that led to it: what a step of the search is worth, asked of
the plan that came out in the end."""

from __future__ import annotations

from collections.abc import Sequence

from enginewright.errors import PlanError
from enginewright.model.graph import Graph
from enginewright.plan.choices import replace_groups, with_settings
from enginewright.plan.contracts import Library
from enginewright.plan.plan import Group, Plan

_SETTINGS = ("threads", "pool", "memory", "cache")


def without_change(
    plan: Plan, before: Plan, after: Plan, graph: Graph, library: Library
) -> Plan | None:
    """The plan with what `after` changed of `before` put back, where the plan still has it.

    None if nothing of the change is left in the plan, or nothing legal comes of putting it back.
    """
    changed = plan
    settings = {
        name: getattr(before, name)
        for name in _SETTINGS
        if getattr(before, name) != getattr(after, name) == getattr(plan, name)
    }
    try:
        if settings:
            changed = with_settings(changed, graph, library, **settings)
        for name, step in plan.steps.items():
            if name not in before.steps or name not in after.steps:
                continue
            groups = _put_back(step.groups, before.steps[name].groups, after.steps[name].groups)
            if groups is not None:
                changed = replace_groups(changed, graph, library, step=name, groups=groups)
    except PlanError:
        # A later change stands on this one: alone it cannot be taken out.
        return None
    return None if changed == plan else changed


def _put_back(
    groups: Sequence[Group], before: Sequence[Group], after: Sequence[Group]
) -> list[Group] | None:
    """The groups with runs that `after` changed as they were in `before`; None if there are none.

    A run is put back only where all its groups stand in a row, as `after` has them.
    """
    looks = [_look(group) for group in groups]
    replaced: dict[int, tuple[int, list[Group]]] = {}
    for old, new in aligned_groups(before, after):
        wanted = [_look(group) for group in new]
        if [_look(group) for group in old] == wanted or wanted[0] not in looks:
            continue
        first = looks.index(wanted[0])
        if looks[first : first + len(wanted)] == wanted:
            replaced[first] = (len(wanted), list(old))
    if not replaced:
        return None
    result: list[Group] = []
    place = 0
    while place < len(groups):
        count, instead = replaced.get(place, (1, [groups[place]]))
        result += instead
        place += count
    return result


def _look(group: Group) -> tuple[object, ...]:
    return group.ops, group.kernel, tuple(sorted(group.parameters.items()))


def aligned_groups(
    mine: Sequence[Group], theirs: Sequence[Group]
) -> list[tuple[list[Group], list[Group]]]:
    """Shortest runs of groups of two plans that cover the same ops."""
    pairs: list[tuple[list[Group], list[Group]]] = []
    held: list[Group] = []
    other: list[Group] = []
    left, right = list(mine), list(theirs)
    while left or right:
        covered = {op for group in held for op in group.ops}
        reached = {op for group in other for op in group.ops}
        if (left and len(covered) <= len(reached)) or not right:
            held.append(left.pop(0))
        else:
            other.append(right.pop(0))
        if {op for group in held for op in group.ops} == {
            op for group in other for op in group.ops
        }:
            pairs.append((held, other))
            held, other = [], []
    if held or other:
        pairs.append((held, other))
    return pairs
