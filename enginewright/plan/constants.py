"""The compile-time constants of a group: what a kernel knows of the graph. docs/architecture.md has
the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enginewright.model.graph import Attribute, Graph, Op
from enginewright.model.op_table import OP_TABLE

HOST_ATTRIBUTES = ("layer",)
"""Attributes that only the host needs: left out, so that all layers share one object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """Room of one step."""

    rows: int
    """Most rows."""
    selected: int
    """Most selected rows."""


def touches_cache(ops: Sequence[Op]) -> bool:
    """Whether a group reads or writes the cache of keys and values."""
    return any(op.kind in ("kv_write", "attention") for op in ops)


def op_rows(graph: Graph, op: Op) -> str:
    """What the rows of an op are: those of its output, or of its input if it has none."""
    return graph.buffers[(op.outputs or op.inputs)[0]].rows


def group_constants(
    graph: Graph,
    ops: Sequence[Op],
    size: StepSize,
    *,
    cache: tuple[str, str],
    parameters: Mapping[str, int],
) -> dict[str, str]:
    """The environment of `rustc` for a group of `ops`.

    `cache` is (dtype, layout); it enters only for groups that touch the cache.
    """
    constants = {
        "EW_OPS": " ".join(op.kind for op in ops),
        "EW_ROWS": str(size.rows),
        "EW_SELECTED": str(size.selected),
    }
    for number, op in enumerate(ops):
        for name, value in op_constants(graph, op).items():
            constants[f"EW_OP{number}_{name}"] = value
    if touches_cache(ops):
        constants["EW_CACHE_DTYPE"], constants["EW_CACHE_LAYOUT"] = cache
    for name, setting in parameters.items():
        constants[f"EW_PARAM_{name}"] = str(setting)
    return constants


def op_constants(graph: Graph, op: Op) -> dict[str, str]:
    """The constants of one op, without their prefix."""
    constants = {
        "WIDTH": str(graph.buffers[(op.inputs or op.outputs)[0]].width),
        "ROWS": op_rows(graph, op),
        "WEIGHTS": str(len(op.weights)),
    }
    if op.kind == "linear":
        outputs, inputs = graph.weight_shape(op.weights[0])
        constants |= {
            "IN": str(inputs),
            "OUT": str(outputs),
            "BIAS": str(len(op.weights) - 1),
            "DTYPE": stored_dtype(graph, op.weights[0]),
        }
    if op.kind == "embed":
        constants["DTYPES"] = " ".join(stored_dtype(graph, name) for name in op.weights)
        constants["ENTRIES"] = str(graph.weight_shape(op.weights[0])[0])
    if op.kind == "experts":
        constants["DTYPE"] = stored_dtype(graph, op.weights[0])
    if op.kind == "sigmoid_mul":
        gates, values = (graph.buffers[name].width for name in op.inputs)
        constants["EACH"] = str(values // gates)
    for name, value in op.attributes.items():
        if name not in HOST_ATTRIBUTES:
            constants |= _attribute(op.kind, name, value)
    return constants


def stored_dtype(graph: Graph, name: str) -> str:
    """Stored type of a weight; constants are float32."""
    weight = graph.weights.get(name)
    return weight.dtype if weight is not None else "f32"


def _attribute(kind: str, name: str, value: Attribute) -> dict[str, str]:
    if isinstance(value, list):
        return {name.upper(): " ".join(value)}
    # By the op table and not by the value: a magnitude of 1 is a float all the same.
    if isinstance(value, (int, float)) and OP_TABLE[kind].attributes[name] is not int:
        return {f"{name.upper()}_BITS": str(int(np.float32(value).view(np.uint32)))}
    return {name.upper(): str(value)}
