"""`top_k_gate` and `experts`: a mixture of experts."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.elementwise import sigmoid
from enginewright.model.ops.step import Doubles, Floats, Step


def top_k_gate(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """The weight of each expert for each row: softmax over all, the `top_k` largest (the first of
    equals) scaled to sum 1, zero for the others; logits, gates [rows, experts]."""
    logits = inputs[0].astype(np.float64)
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, : op.integer("top_k")]
    likely = np.exp(np.take_along_axis(logits, chosen, axis=1) - logits.max(axis=1, keepdims=True))
    gates = np.zeros_like(logits)
    np.put_along_axis(gates, chosen, likely / likely.sum(axis=1, keepdims=True), axis=1)
    return [gates.astype(np.float32)]


def experts(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = sum over experts e of gates[e] · down_e (silu(gate_e x) · up_e x).

    Shapes: x, y [rows, D], gates [rows, experts]; weights by expert: gate, up [inner, D],
    down [D, inner].
    """
    x, gates = (part.astype(np.float64) for part in inputs)
    y: Doubles = np.zeros_like(x)
    for expert in range(op.integer("experts")):
        rows = np.flatnonzero(gates[:, expert])
        gate, up, down = (part.astype(np.float64) for part in weights[3 * expert : 3 * expert + 3])
        opened = x[rows] @ gate.T
        inner = opened * sigmoid(opened) * (x[rows] @ up.T)
        y[rows] += gates[rows, expert, None] * (inner @ down.T)
    return [y.astype(np.float32)]
