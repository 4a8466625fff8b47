"""Whether a graph holds together: every name known, every shape right, every buffer written before
it is read."""

from __future__ import annotations

from math import prod
from typing import Never

from enginewright.errors import CheckpointError
from enginewright.model.dtypes import SUPPORTED
from enginewright.model.graph import Graph, Op
from enginewright.model.op_table import OP_TABLE, RECURRENT, OpRule


def verify_graph(graph: Graph) -> None:
    """Raises: CheckpointError naming the first thing that does not hold."""
    _verify_weights(graph)
    written: set[str] = set()
    cached_layers: set[int] = set()
    carried: set[tuple[str, int]] = set()
    seen: set[str] = set()
    for op in graph.ops:
        if op.id in seen:
            _refuse(f"op `{op.id}` appears twice")
        seen.add(op.id)
        rule = OP_TABLE.get(op.kind)
        if rule is None:
            _refuse(f"op `{op.id}` has unknown kind `{op.kind}`; known: {', '.join(OP_TABLE)}")
        _verify_op(graph, op, rule, written)
        if op.kind == "kv_write":
            cached_layers.add(op.integer("layer"))
        if op.kind == "attention" and op.integer("layer") not in cached_layers:
            _refuse(
                f"op `{op.id}` reads the cache of layer {op.integer('layer')} before it is written"
            )
        if op.kind in RECURRENT:
            place = (op.kind, op.integer("layer"))
            if place in carried:
                _refuse(f"op `{op.id}` carries the state of layer {place[1]} that another op does")
            carried.add(place)
        written.update(op.outputs)
    if graph.output not in written:
        _refuse(f"the output `{graph.output}` is written by no op")
    for op in graph.ops:
        for name in op.outputs:
            if name not in graph.readers and name != graph.output:
                _refuse(f"op `{op.id}` writes `{name}`, which no op reads")
    unused = graph.buffers.keys() - written
    if unused:
        _refuse(f"buffer `{min(unused)}` is written by no op")


def _verify_weights(graph: Graph) -> None:
    for file in graph.files:
        if not graph.is_safe_path(file.path):
            _refuse(f"file path {file.path!r} leaves the checkpoint's folder")
    for name, weight in graph.weights.items():
        if not 0 <= weight.file < len(graph.files):
            _refuse(f"weight `{name}` names file {weight.file} of {len(graph.files)}")
        stored = SUPPORTED.get(weight.dtype)
        if stored is None:
            _refuse(
                f"weight `{name}` has dtype `{weight.dtype}`; supported: {', '.join(SUPPORTED)}"
            )
        if weight.bytes != stored.size_bytes(prod(weight.shape)):
            _refuse(
                f"weight `{name}` has {weight.bytes} bytes, which is not its shape times its dtype"
            )
        if weight.offset < 0 or weight.offset + weight.bytes > graph.files[weight.file].bytes:
            _refuse(f"weight `{name}` lies outside file `{graph.files[weight.file].path}`")
    for name, constant in graph.constants.items():
        if name in graph.weights:
            _refuse(f"`{name}` is both a weight and a constant")
        if prod(constant.shape) != len(constant.values):
            _refuse(
                f"constant `{name}` has {len(constant.values)} values; its shape is "
                f"{constant.shape}"
            )


def _verify_op(graph: Graph, op: Op, rule: OpRule, written: set[str]) -> None:
    where = f"op `{op.id}` ({op.kind})"
    if len(op.inputs) != rule.inputs or len(op.outputs) != rule.outputs:
        _refuse(
            f"{where} has {len(op.inputs)} inputs and {len(op.outputs)} outputs; "
            f"expected {rule.inputs} and {rule.outputs}"
        )
    for name in (*op.inputs, *op.outputs):
        if name not in graph.buffers:
            _refuse(f"{where} names buffer `{name}`, which is not declared")
    for name in op.inputs:
        if name not in written:
            _refuse(f"{where} reads buffer `{name}` before it is written")
    for name in op.outputs:
        if name in written:
            _refuse(f"{where} writes buffer `{name}`, which is written already")
    for name in op.weights:
        if name not in graph.weights and name not in graph.constants:
            _refuse(f"{where} names weight `{name}`, which is not declared")
    missing = [name for name in rule.attributes if name not in op.attributes]
    if missing:
        _refuse(f"{where} lacks attribute `{missing[0]}`")
    unknown = [name for name in op.attributes if name not in rule.attributes]
    if unknown:
        _refuse(f"{where} has unknown attribute `{unknown[0]}`")
    for name, kinds in rule.attributes.items():
        value = op.attributes[name]
        if isinstance(value, bool) or not isinstance(value, kinds):
            _refuse(f"{where}: attribute `{name}` is {value!r}, of the wrong type")
    problem = rule.check(graph, op)
    if problem is not None:
        _refuse(f"{where}: {problem}")


def _refuse(problem: str) -> Never:
    raise CheckpointError(f"graph: {problem}", hint="make the graph again from the checkpoint")
