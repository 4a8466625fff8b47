"""`rms_norm`, `layer_norm`, `head_norm`, `zero_centred_norm`, `gated_norm`, `l2_norm`: each row on
its own."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.elementwise import sigmoid
from enginewright.model.ops.step import Doubles, Floats, Step


def rms_norm(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = x / sqrt(mean(x²) + epsilon) · w; x, y [rows, D], w [D]."""
    x = inputs[0].astype(np.float64)
    scale = 1.0 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + op.number("epsilon"))
    return [(x * scale * weights[0]).astype(np.float32)]


def layer_norm(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = (x − mean) / sqrt(variance + epsilon) · w + b; x, y [rows, D], w, b [D]; variance over D,
    not D − 1."""
    x = inputs[0].astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    variance = np.mean(centred * centred, axis=1, keepdims=True)
    y = centred / np.sqrt(variance + op.number("epsilon")) * weights[0] + weights[1]
    return [y.astype(np.float32)]


def head_norm(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """`rms_norm` of each head, all with the same weight; x, y [rows, heads · head_dim],
    w [head_dim]."""
    x = _normed_heads(op, inputs[0])
    return [(x * weights[0]).astype(np.float32).reshape(inputs[0].shape)]


def zero_centred_norm(
    op: Op, inputs: list[Floats], weights: list[Floats], step: Step
) -> list[Floats]:
    """`head_norm` with weights that are stored less one: x, y [rows, heads · head_dim], w
    [head_dim], factor 1 + w."""
    x = _normed_heads(op, inputs[0])
    return [(x * (1.0 + weights[0].astype(np.float64))).astype(np.float32).reshape(inputs[0].shape)]


def gated_norm(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """`head_norm` of x, times silu(z); x, z, y [rows, heads · head_dim], w [head_dim]."""
    z = inputs[1].astype(np.float64)
    x = (_normed_heads(op, inputs[0]) * weights[0]).reshape(z.shape)
    return [(x * z * sigmoid(z)).astype(np.float32)]


def _normed_heads(op: Op, x: Floats) -> Doubles:
    heads: Doubles = x.reshape(-1, op.integer("heads"), op.integer("head_dim")).astype(np.float64)
    normed: Doubles = heads / np.sqrt(
        np.mean(heads * heads, axis=2, keepdims=True) + op.number("epsilon")
    )
    return normed


def l2_norm(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = x / max(|x|, epsilon); x, y [rows, D]."""
    x = inputs[0].astype(np.float64)
    length = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    return [(x / np.maximum(length, op.number("epsilon"))).astype(np.float32)]
