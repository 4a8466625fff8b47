"""`silu_mul`, `gelu`, `add`: value by value."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf

from enginewright.model.graph import Op
from enginewright.model.ops.step import Floats, Step


def silu_mul(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = gate / (1 + exp(−gate)) · up; all [rows, D]."""
    gate, up = (part.astype(np.float64) for part in inputs)
    # exp(−|x|) never overflows; both branches are the same function.
    small = np.exp(-np.abs(gate))
    sigmoid = np.where(gate >= 0, 1.0, small) / (1.0 + small)
    return [(gate * sigmoid * up).astype(np.float32)]


def gelu(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = x/2 · (1 + erf(x/√2)), or with form `tanh` x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)));
    [rows, D]."""
    x = inputs[0].astype(np.float64)
    if op.attributes["form"] == "erf":
        y = 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))
    else:
        y = 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return [y.astype(np.float32)]


def add(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = a + b; all [rows, D]."""
    return [inputs[0] + inputs[1]]
