"""Constraints of kernel contracts: a few operators over numbers and texts, without `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from enginewright.errors import PlanError

Value = int | str

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def holds(constraint: str, names: Mapping[str, Value], *, where: str) -> bool:
    """Whether the constraint is true, or speaks of `OP_` names that this op does not have.

    Raises: PlanError if it is no expression or uses anything but the allowed operators and names.
    """
    try:
        tree, used = _parsed(constraint)
    except SyntaxError as error:
        raise PlanError(
            f"{where}: constraint `{constraint}` is no expression: {error.msg}"
        ) from error
    missing = sorted(used - names.keys())
    if any(not name.startswith("OP_") for name in missing):
        unknown = next(name for name in missing if not name.startswith("OP_"))
        raise PlanError(
            f"{where}: constraint `{constraint}` names the unknown `{unknown}`",
            hint=f"known: {', '.join(sorted(names))}",
        )
    if missing:
        return True
    try:
        return bool(_evaluate(tree, names))
    except (TypeError, ZeroDivisionError, KeyError) as error:
        raise PlanError(
            f"{where}: constraint `{constraint}` cannot be evaluated: {error}",
            hint="use + - * // % and or not == != < <= > >= in, numbers, texts and names",
        ) from error


@cache
def _parsed(constraint: str) -> tuple[ast.expr, frozenset[str]]:
    tree = ast.parse(constraint, mode="eval").body
    return tree, frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _evaluate(node: ast.expr, names: Mapping[str, Value]) -> Any:
    match node:
        case ast.Constant(value=int() | str()):
            return node.value
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, names), _evaluate(right, names))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, names)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_evaluate(value, names) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_evaluate(value, names) for value in values)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [_evaluate(element, names) for element in elements]
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_evaluate(value, names) for value in (left, *comparators)]
            return all(
                _COMPARE[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False)
            )
        case _:
            raise TypeError(f"{type(node).__name__} is not allowed")
