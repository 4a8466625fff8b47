"""What two plans of one model do otherwise, told in rows that people can read."""

from __future__ import annotations

from collections import Counter
from typing import Any

from enginewright.plan import Group, Plan
from enginewright.plan.undo import aligned_groups

_SETTINGS = ("threads", "pool", "memory", "cache", "numerics", "requires")


def plan_difference(first: Plan, second: Plan) -> list[dict[str, Any]]:
    """Rows with `where`, `times` (layers alike are told once), `first` and `second`."""
    rows: list[dict[str, Any]] = []
    mine, theirs = first.model_dump(mode="json"), second.model_dump(mode="json")
    for name in _SETTINGS:
        rows += _settings(name, mine[name], theirs[name])
    for step in sorted(set(first.steps) | set(second.steps)):
        held, other = mine["steps"].get(step), theirs["steps"].get(step)
        if held is None or other is None:
            rows.append(_row(step, 1, held and "present", other and "present"))
            continue
        rows += _settings(f"{step}.rows", held["rows"], other["rows"])
        rows += _settings(f"{step}.selected", held["selected"], other["selected"])
        rows += _groups(step, first.steps[step].groups, second.steps[step].groups)
    return rows


def _settings(name: str, mine: Any, theirs: Any) -> list[dict[str, Any]]:
    if mine == theirs:
        return []
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return [
            row
            for key in sorted(mine.keys() | theirs.keys())
            for row in _settings(f"{name}.{key}", mine.get(key), theirs.get(key))
        ]
    if isinstance(mine, list) and isinstance(theirs, list):
        return [_row(name, 1, " ".join(map(str, mine)), " ".join(map(str, theirs)))]
    return [_row(name, 1, mine, theirs)]


def _groups(step: str, mine: tuple[Group, ...], theirs: tuple[Group, ...]) -> list[dict[str, Any]]:
    """Runs of ops between which both plans cut, where they differ; the same in many layers is
    one row."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for held, other in aligned_groups(mine, theirs):
        if [_describe(group) for group in held] != [_describe(group) for group in other]:
            ops = " ".join(_kind(op) for group in held for op in group.ops)
            counted[
                ops,
                " + ".join(_describe(group) for group in held),
                " + ".join(_describe(group) for group in other),
            ] += 1
    return [
        _row(f"{step}: {ops}", times, before, after)
        for (ops, before, after), times in counted.items()
    ]


def _kind(op: str) -> str:
    """The op's name without its layer: `L3.q` and `L4.q` are told together."""
    return op.split(".", 1)[-1]


def _describe(group: Group) -> str:
    parameters = " ".join(f"{name}={value}" for name, value in sorted(group.parameters.items()))
    return f"{group.kernel} {parameters}".strip()


def _row(where: str, times: int, first: Any, second: Any) -> dict[str, Any]:
    return {"where": where, "times": times, "first": first, "second": second}
