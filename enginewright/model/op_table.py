"""The op kinds: how many inputs and outputs, which attributes, which shapes. docs/architecture.md,
as code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from enginewright.model.graph import Graph, Op

Problem = str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRule:
    """What every op of one kind must look like."""

    inputs: int
    """Buffers read."""
    outputs: int
    """Buffers written."""
    attributes: dict[str, type | tuple[type, ...]]
    """Attributes, all required, with their types."""
    check: Callable[[Graph, Op], Problem]
    """Says what is wrong with the shapes, or None."""


_NUMBER = (int, float)


def _shapes(graph: Graph, op: Op) -> list[tuple[int, ...]]:
    return [graph.weight_shape(name) for name in op.weights]


def _width(graph: Graph, name: str) -> int:
    return graph.buffers[name].width


def _same_rows(graph: Graph, op: Op) -> Problem:
    rows = {graph.buffers[name].rows for name in (*op.inputs, *op.outputs)}
    return None if len(rows) == 1 else f"mixes buffers of {' and '.join(sorted(rows))}"


def _same_shape(graph: Graph, op: Op) -> Problem:
    widths = {_width(graph, name) for name in (*op.inputs, *op.outputs)}
    if len(widths) != 1:
        return f"widths differ: {sorted(widths)}"
    return _same_rows(graph, op)


def _check_embed(graph: Graph, op: Op) -> Problem:
    tables = op.attributes["tables"]
    assert isinstance(tables, list)
    if len(tables) != len(op.weights) or tables[:1] != ["token"]:
        return f"tables {tables} do not match {len(op.weights)} weights, the token table first"
    if not set(tables) <= {"token", "position", "type"} or len(set(tables)) != len(tables):
        return f"tables {tables}: expected token, position, type, each at most once"
    width = _width(graph, op.outputs[0])
    for name, shape in zip(op.weights, _shapes(graph, op), strict=True):
        if len(shape) != 2 or shape[1] != width:
            return f"table `{name}` has shape {list(shape)}; expected [n, {width}]"
    return None if graph.buffers[op.outputs[0]].rows == "tokens" else "output rows are not tokens"


def _check_norm(graph: Graph, op: Op) -> Problem:
    expected = 2 if op.kind == "layer_norm" else 1
    width = _width(graph, op.inputs[0])
    if _shapes(graph, op) != [(width,)] * expected:
        return f"weights have shapes {_shapes(graph, op)}; expected {expected} of [{width}]"
    return _same_shape(graph, op)


def _check_head_norm(graph: Graph, op: Op) -> Problem:
    heads, head_dim = op.integer("heads"), op.integer("head_dim")
    if min(heads, head_dim) < 1 or _width(graph, op.inputs[0]) != heads * head_dim:
        return f"{heads} heads of {head_dim} do not fill the input"
    if _shapes(graph, op) != [(head_dim,)]:
        return f"weights have shapes {_shapes(graph, op)}; expected [{head_dim}]"
    return _same_shape(graph, op)


def _check_head_slice(graph: Graph, op: Op) -> Problem:
    heads, head_dim, first, count = (
        op.integer(name) for name in ("heads", "head_dim", "first", "count")
    )
    if min(heads, count) < 1 or first < 0 or first + count > head_dim:
        return f"values {first} to {first + count} are not inside {heads} heads of {head_dim}"
    if _width(graph, op.inputs[0]) != heads * head_dim:
        return f"{heads} heads of {head_dim} do not fill the input"
    if _width(graph, op.outputs[0]) != heads * count:
        return f"the output is not {heads * count} wide"
    return _same_rows(graph, op)


def _check_causal_conv(graph: Graph, op: Op) -> Problem:
    width, kernel = _width(graph, op.inputs[0]), op.integer("kernel")
    if kernel < 2 or _shapes(graph, op) != [(width, 1, kernel)]:
        return (
            f"weights have shapes {_shapes(graph, op)}; expected [{width}, 1, kernel], kernel > 1"
        )
    return _same_shape(graph, op) or _only_tokens(graph, op)


def _check_delta_rule(graph: Graph, op: Op) -> Problem:
    key_heads, value_heads, key_dim, value_dim = (
        op.integer(name) for name in ("key_heads", "value_heads", "key_dim", "value_dim")
    )
    if min(key_heads, value_heads, key_dim, value_dim) < 1 or value_heads % key_heads:
        return f"{value_heads} value heads do not divide into {key_heads} groups"
    values = value_heads * value_dim
    wanted = [2 * key_heads * key_dim + values, value_heads, value_heads]
    if [_width(graph, name) for name in op.inputs] != wanted:
        return f"inputs are not {wanted} wide"
    if _width(graph, op.outputs[0]) != values:
        return f"the output is not {values} wide"
    if _shapes(graph, op) != [(value_heads,)] * 2:
        return f"weights have shapes {_shapes(graph, op)}; expected two of [{value_heads}]"
    return _only_tokens(graph, op)


def _only_tokens(graph: Graph, op: Op) -> Problem:
    rows = {graph.buffers[name].rows for name in (*op.inputs, *op.outputs)}
    return (
        None if rows == {"tokens"} else f"has buffers of {' and '.join(sorted(rows))}, not tokens"
    )


def _check_sigmoid_mul(graph: Graph, op: Op) -> Problem:
    gates, width = _width(graph, op.inputs[0]), _width(graph, op.inputs[1])
    if width % gates or _width(graph, op.outputs[0]) != width:
        return f"{gates} gates do not open {width} values"
    return _same_rows(graph, op)


def _check_top_k_gate(graph: Graph, op: Op) -> Problem:
    top_k, width = op.integer("top_k"), _width(graph, op.inputs[0])
    if not 1 <= top_k <= width:
        return f"top_k is {top_k} of {width} experts"
    return _same_shape(graph, op)


def _check_experts(graph: Graph, op: Op) -> Problem:
    count, inner, top_k = (op.integer(name) for name in ("experts", "inner", "top_k"))
    width = _width(graph, op.inputs[0])
    if not 1 <= top_k <= count or _width(graph, op.inputs[1]) != count:
        return f"top_k {top_k} and experts {count} do not fit gates of {op.inputs[1]}"
    if _width(graph, op.outputs[0]) != width:
        return f"the output is not {width} wide"
    if _shapes(graph, op) != [(inner, width), (inner, width), (width, inner)] * count:
        return f"weights are not gate, up and down of {count} experts of [{inner}, {width}]"
    types = {graph.weights[name].dtype for name in op.weights if name in graph.weights}
    if len(types) != 1:
        return f"its matrices are stored as {' and '.join(sorted(types))}; expected one type"
    return _same_rows(graph, op)


def _check_linear(graph: Graph, op: Op) -> Problem:
    shapes = _shapes(graph, op)
    wanted = (_width(graph, op.outputs[0]), _width(graph, op.inputs[0]))
    if not 1 <= len(shapes) <= 2 or shapes[0] != wanted or shapes[1:] not in ([], [wanted[:1]]):
        return f"weights have shapes {shapes}; expected {list(wanted)} and perhaps a bias"
    return _same_rows(graph, op)


def _check_rope(graph: Graph, op: Op) -> Problem:
    heads, head_dim, rotary = (op.integer(name) for name in ("heads", "head_dim", "rotary"))
    if op.attributes["pairing"] not in ("adjacent", "half"):
        return f"pairing is {op.attributes['pairing']!r}; expected adjacent or half"
    if rotary % 2 or not 0 < rotary <= head_dim or _width(graph, op.inputs[0]) != heads * head_dim:
        return f"rotary {rotary}, heads {heads} and head_dim {head_dim} do not fit the input"
    if _shapes(graph, op) != [(rotary // 2,)]:
        return f"frequencies have shapes {_shapes(graph, op)}; expected [{rotary // 2}]"
    return _same_shape(graph, op)


def _check_kv_write(graph: Graph, op: Op) -> Problem:
    width = op.integer("kv_heads") * op.integer("head_dim")
    if any(_width(graph, name) != width for name in op.inputs):
        return f"inputs are not {width} wide"
    return None


def _check_attention(graph: Graph, op: Op) -> Problem:
    heads, head_dim = op.integer("heads"), op.integer("head_dim")
    if _width(graph, op.inputs[0]) != heads * head_dim:
        return f"input is not {heads * head_dim} wide"
    if op.kind == "attention" and (op.integer("kv_heads") < 1 or heads % op.integer("kv_heads")):
        return f"{heads} heads do not divide into {op.integer('kv_heads')} groups"
    return _same_shape(graph, op)


def _check_gelu(graph: Graph, op: Op) -> Problem:
    if op.attributes["form"] not in ("erf", "tanh"):
        return f"form is {op.attributes['form']!r}; expected erf or tanh"
    return _same_shape(graph, op)


def _check_rows(before: str, after: str) -> Callable[[Graph, Op], Problem]:
    def check(graph: Graph, op: Op) -> Problem:
        given, made = graph.buffers[op.inputs[0]], graph.buffers[op.outputs[0]]
        if (given.rows, made.rows) != (before, after) or given.width != made.width:
            return f"turns {given} into {made}; expected {before} into {after} of one width"
        return None

    return check


def _rule(
    inputs: int,
    outputs: int,
    check: Callable[[Graph, Op], Problem],
    **attributes: type | tuple[type, ...],
) -> OpRule:
    return OpRule(inputs=inputs, outputs=outputs, attributes=attributes, check=check)


OP_TABLE: dict[str, OpRule] = {
    "embed": _rule(0, 1, _check_embed, tables=list, position_offset=int),
    "rms_norm": _rule(1, 1, _check_norm, epsilon=_NUMBER),
    "layer_norm": _rule(1, 1, _check_norm, epsilon=_NUMBER),
    "head_norm": _rule(1, 1, _check_head_norm, heads=int, head_dim=int, epsilon=_NUMBER),
    "zero_centred_norm": _rule(1, 1, _check_head_norm, heads=int, head_dim=int, epsilon=_NUMBER),
    "gated_norm": _rule(2, 1, _check_head_norm, heads=int, head_dim=int, epsilon=_NUMBER),
    "linear": _rule(1, 1, _check_linear),
    "head_slice": _rule(1, 1, _check_head_slice, heads=int, head_dim=int, first=int, count=int),
    "rope": _rule(
        1, 1, _check_rope, heads=int, head_dim=int, rotary=int, pairing=str, magnitude=_NUMBER
    ),
    "kv_write": _rule(2, 0, _check_kv_write, layer=int, kv_heads=int, head_dim=int),
    "attention": _rule(
        1,
        1,
        _check_attention,
        layer=int,
        heads=int,
        kv_heads=int,
        head_dim=int,
        scale=_NUMBER,
        window=int,
    ),
    "self_attention": _rule(3, 1, _check_attention, heads=int, head_dim=int, scale=_NUMBER),
    "causal_conv": _rule(1, 1, _check_causal_conv, layer=int, kernel=int),
    "delta_rule": _rule(
        3,
        1,
        _check_delta_rule,
        layer=int,
        key_heads=int,
        value_heads=int,
        key_dim=int,
        value_dim=int,
        epsilon=_NUMBER,
    ),
    "silu_mul": _rule(2, 1, _same_shape),
    "sigmoid_mul": _rule(2, 1, _check_sigmoid_mul),
    "top_k_gate": _rule(1, 1, _check_top_k_gate, top_k=int),
    "experts": _rule(2, 1, _check_experts, experts=int, inner=int, top_k=int),
    "gelu": _rule(1, 1, _check_gelu, form=str),
    "add": _rule(2, 1, _same_shape),
    "select_rows": _rule(1, 1, _check_rows("tokens", "selected")),
    "mean_pool": _rule(1, 1, _check_rows("tokens", "segments")),
    "first_pool": _rule(1, 1, _check_rows("tokens", "segments")),
    "l2_norm": _rule(1, 1, _same_shape, epsilon=_NUMBER),
}
"""Every op kind, by name."""

RECURRENT = ("causal_conv", "delta_rule")
"""Kinds that carry a state of each slot from row to row: their rows cannot be run twice."""


def state_shape(op: Op, width: int) -> tuple[int, ...]:
    """Shape of what a recurrent op carries on for one slot; `width` is that of its first input."""
    if op.kind == "causal_conv":
        return (op.integer("kernel") - 1, width)
    return (op.integer("value_heads"), op.integer("key_dim"), op.integer("value_dim"))
