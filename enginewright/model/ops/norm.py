"""`rms_norm`, `layer_norm`, `head_norm`, `l2_norm`: each row on its own."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.step import Floats, Step


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
    x = inputs[0].reshape(-1, op.integer("heads"), op.integer("head_dim")).astype(np.float64)
    scale = 1.0 / np.sqrt(np.mean(x * x, axis=2, keepdims=True) + op.number("epsilon"))
    return [(x * scale * weights[0]).astype(np.float32).reshape(inputs[0].shape)]


def l2_norm(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = x / max(|x|, epsilon); x, y [rows, D]."""
    x = inputs[0].astype(np.float64)
    length = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    return [(x / np.maximum(length, op.number("epsilon"))).astype(np.float32)]
