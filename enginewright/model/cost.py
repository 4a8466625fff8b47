"""What a step must move and compute: bytes and flops of each op, and the floor that a bandwidth
sets.

Bytes are the least that any engine moves from memory: each weight once a step in the precision it
is stored in, the
keys and values once, nothing for activations (they fit the caches of the processor).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from enginewright.errors import UsageError
from enginewright.model.dtypes import SUPPORTED
from enginewright.model.graph import Graph, Op
from enginewright.model.op_table import RECURRENT, state_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """How large a step is. Segments are of one length, and so are the sequences behind them."""

    rows: int
    """Tokens in the step."""
    segments: int
    """Sequences that they belong to."""
    selected: int
    """Rows whose output is wanted."""
    context: int
    """Length of each sequence once the step is done."""

    def __post_init__(self) -> None:
        if not 1 <= self.segments <= self.rows or self.rows % self.segments:
            raise UsageError(f"{self.rows} rows do not divide into {self.segments} segments")
        if not 1 <= self.selected <= self.rows:
            raise UsageError(f"{self.selected} selected rows of {self.rows}")
        if self.context < self.rows // self.segments:
            raise UsageError(
                f"a sequence of {self.context} is shorter than its {self.rows // self.segments} "
                "rows"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """What one op must move and compute in a step."""

    op: str
    """Its id."""
    kind: str
    """Its kind."""
    weight_bytes: int
    """Stored bytes of weights it reads."""
    cache_bytes: int
    """Bytes of keys and values, and of recurrent states, that it reads or writes."""
    flops: int
    """Floating-point operations; a multiply-add is two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What a step must move and compute."""

    ops: tuple[OpCost, ...]
    """By op, in order; a weight that two ops read counts for both."""
    weight_bytes: int
    """Stored bytes of all weights, each once."""
    cache_bytes: int
    """Bytes of keys and values and of recurrent states."""
    flops: int
    """Floating-point operations."""

    @property
    def bytes(self) -> int:
        """The least that moves from memory."""
        return self.weight_bytes + self.cache_bytes

    def floor_seconds(
        self, *, bytes_per_second: float, flops_per_second: float = float("inf")
    ) -> float:
        """The least time: of moving at that bandwidth, or of computing at that peak if it is
        longer."""
        return max(self.bytes / bytes_per_second, self.flops / flops_per_second)


def decode_shape(context: int, *, rows: int = 1) -> StepShape:
    """One token each of `rows` sequences that have `context` tokens then."""
    return StepShape(rows=rows, segments=rows, selected=rows, context=context)


def prompt_shape(tokens: int, *, sequences: int = 1) -> StepShape:
    """Whole prompts (or whole texts of an encoder) of `tokens` tokens each."""
    return StepShape(
        rows=tokens * sequences, segments=sequences, selected=sequences, context=tokens
    )


def step_cost(graph: Graph, shape: StepShape, *, cache_value_bytes: int = 4) -> StepCost:
    """Cost of each op and of the step; `cache_value_bytes` is the size of a key's or value's
    element."""
    costs = []
    whole: set[str] = set()
    gathered = 0
    for op in graph.ops:
        if op.kind == "embed":
            weight_bytes = _gathered_bytes(graph, op, shape)
            gathered += weight_bytes
        elif op.kind == "experts":
            # The least: every row chooses the same experts.
            chosen = op.weights[: 3 * op.integer("top_k")]
            weight_bytes = sum(_stored_bytes(graph, name) for name in chosen)
            gathered += weight_bytes
        else:
            weight_bytes = sum(_stored_bytes(graph, name) for name in op.weights)
            whole.update(op.weights)
        costs.append(
            OpCost(
                op=op.id,
                kind=op.kind,
                weight_bytes=weight_bytes,
                cache_bytes=_cache_values(op, shape) * cache_value_bytes
                + _state_bytes(graph, op, shape),
                flops=_FLOPS[op.kind](graph, op, shape),
            )
        )
    return StepCost(
        ops=tuple(costs),
        weight_bytes=gathered + sum(_stored_bytes(graph, name) for name in whole),
        cache_bytes=sum(cost.cache_bytes for cost in costs),
        flops=sum(cost.flops for cost in costs),
    )


def _stored_bytes(graph: Graph, name: str) -> int:
    weight = graph.weights.get(name)
    return weight.bytes if weight else 4 * len(graph.constants[name].values)


def _gathered_bytes(graph: Graph, op: Op, shape: StepShape) -> int:
    total = 0
    for name in op.weights:
        weight = graph.weights[name]
        row_bytes = SUPPORTED[weight.dtype].size_bytes(weight.shape[1])
        total += row_bytes * min(shape.rows, weight.shape[0])
    return total


def _rows(graph: Graph, op: Op, shape: StepShape) -> int:
    name = (op.outputs or op.inputs)[0]
    counts = {"tokens": shape.rows, "selected": shape.selected, "segments": shape.segments}
    return counts[graph.buffers[name].rows]


def _visible(shape: StepShape, window: int) -> tuple[int, int]:
    """Pairs of (row, visible position) of a segment, and distinct positions it reads."""
    length = shape.rows // shape.segments
    first = shape.context - length + 1
    seen = [min(window or shape.context, first + row) for row in range(length)]
    distinct = min(shape.context, (window or shape.context) + length - 1)
    return sum(seen), distinct


def _cache_values(op: Op, shape: StepShape) -> int:
    if op.kind == "kv_write":
        return 2 * shape.rows * op.integer("kv_heads") * op.integer("head_dim")
    if op.kind == "attention":
        _, distinct = _visible(shape, op.integer("window"))
        return 2 * shape.segments * distinct * op.integer("kv_heads") * op.integer("head_dim")
    return 0


def _state_bytes(graph: Graph, op: Op, shape: StepShape) -> int:
    """A float32 state is read and written once for each segment."""
    if op.kind not in RECURRENT:
        return 0
    return 2 * 4 * shape.segments * prod(state_shape(op, graph.buffers[op.inputs[0]].width))


def _delta_rule_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    """Decay, S^T k, the outer product and S^T q: seven for each value of the state and row."""
    return 7 * shape.rows * prod(state_shape(op, graph.buffers[op.inputs[0]].width))


def _causal_conv_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    width = graph.buffers[op.inputs[0]].width
    return shape.rows * width * (2 * op.integer("kernel") + 4)


def _attention_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    pairs, _ = _visible(shape, op.integer("window"))
    return 4 * shape.segments * pairs * op.integer("heads") * op.integer("head_dim")


def _self_attention_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    pairs = (shape.rows // shape.segments) ** 2
    return 4 * shape.segments * pairs * op.integer("heads") * op.integer("head_dim")


def _linear_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    made, given = graph.weight_shape(op.weights[0])
    return _rows(graph, op, shape) * made * (2 * given + len(op.weights) - 1)


def _experts_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    width = graph.buffers[op.inputs[0]].width
    values = op.integer("top_k") * op.integer("inner")
    return _rows(graph, op, shape) * values * (6 * width + 5)


def _per_value(flops: int) -> Callable[[Graph, Op, StepShape], int]:
    def count(graph: Graph, op: Op, shape: StepShape) -> int:
        name = (op.outputs or op.inputs)[0]
        return flops * _rows(graph, op, shape) * graph.buffers[name].width

    return count


def _pool_flops(graph: Graph, op: Op, shape: StepShape) -> int:
    return shape.rows * graph.buffers[op.inputs[0]].width


_FLOPS: dict[str, Callable[[Graph, Op, StepShape], int]] = {
    "embed": lambda graph, op, shape: (
        (len(op.weights) - 1) * shape.rows * graph.buffers[op.outputs[0]].width
    ),
    "rms_norm": _per_value(4),
    "layer_norm": _per_value(7),
    "head_norm": _per_value(4),
    "zero_centred_norm": _per_value(5),
    "gated_norm": _per_value(9),
    "linear": _linear_flops,
    "head_slice": _per_value(0),
    "rope": _per_value(3),
    "kv_write": _per_value(0),
    "attention": _attention_flops,
    "self_attention": _self_attention_flops,
    "causal_conv": _causal_conv_flops,
    "delta_rule": _delta_rule_flops,
    "silu_mul": _per_value(5),
    "sigmoid_mul": _per_value(4),
    "top_k_gate": _per_value(4),
    "experts": _experts_flops,
    "gelu": _per_value(8),
    "add": _per_value(1),
    "select_rows": _per_value(0),
    "mean_pool": _pool_flops,
    "first_pool": _per_value(0),
    "l2_norm": _per_value(3),
}
