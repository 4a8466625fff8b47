"""`kv_write`, `attention` (causal, over the cache) and `self_attention` (within a segment)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enginewright.model.graph import Op
from enginewright.model.ops.step import Doubles, Floats, Step


def kv_write(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """Put k, v [tokens, kv_heads · head_dim] into the layer's cache, at each row's place."""
    cache = step.caches[op.integer("layer")]
    shape = (-1, op.integer("kv_heads"), op.integer("head_dim"))
    cache.keys[step.slots, step.positions] = inputs[0].reshape(shape)
    cache.values[step.slots, step.positions] = inputs[1].reshape(shape)
    return []


def attention(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """a [tokens, heads · head_dim]: each row over its slot's cache.

    A row at position p sees positions s ≤ p, with a window only those above p − window.
    Head h reads key-value head h // (heads / kv_heads).
    """
    heads, kv_heads, head_dim = (op.integer(name) for name in ("heads", "kv_heads", "head_dim"))
    window = op.integer("window")
    cache = step.caches[op.integer("layer")]
    q = inputs[0].reshape(-1, heads, head_dim)
    outputs = []
    for rows in step.segments:
        if rows.start == rows.stop:
            continue
        positions = step.positions[rows]
        slot, end = int(step.slots[rows.start]), int(positions[-1]) + 1
        known = np.arange(end)
        visible = known[None, :] <= positions[:, None]
        if window:
            visible &= known[None, :] > positions[:, None] - window
        repeat = heads // kv_heads
        k, v = (np.repeat(part[slot, :end], repeat, axis=1) for part in (cache.keys, cache.values))
        outputs.append(_weigh(q[rows], k, v, visible, op.number("scale")))
    return [_join(outputs, inputs[0])]


def self_attention(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """a [tokens, heads · head_dim] from q, k, v of that shape: each row over its whole segment."""
    q, k, v = (
        part.reshape(len(part), op.integer("heads"), op.integer("head_dim")) for part in inputs
    )
    outputs = []
    for rows in step.segments:
        length = rows.stop - rows.start
        visible = np.ones((length, length), np.bool_)
        outputs.append(_weigh(q[rows], k[rows], v[rows], visible, op.number("scale")))
    return [_join(outputs, inputs[0])]


def _weigh(
    q: Floats, k: Floats, v: Floats, visible: npt.NDArray[np.bool_], scale: float
) -> Doubles:
    """softmax(scale · q kᵀ) v by head: [T, H, D].

    Shapes: q [T, H, D], k and v [S, H, D], visible [T, S].
    """
    query, key, value = (np.moveaxis(part.astype(np.float64), 1, 0) for part in (q, k, v))
    scores = scale * (query @ np.swapaxes(key, 1, 2))
    scores = np.where(visible[None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    mixed: Doubles = np.moveaxis(weights @ value, 0, 1)
    return mixed


def _join(outputs: list[Doubles], like: Floats) -> Floats:
    joined: Floats = np.concatenate(outputs).reshape(like.shape).astype(np.float32)
    return joined
