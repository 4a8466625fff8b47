"""`silu_mul`, `sigmoid_mul`, `gelu`, `add`: value by value."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from enginewright.model.graph import Op
from enginewright.model.ops.step import Doubles, Floats, Step


def sigmoid(x: npt.NDArray[np.float64]) -> Doubles:
    """1 / (1 + exp(−x))."""
    # exp(−|x|) never overflows; both branches are the same function.
    small = np.exp(-np.abs(x))
    made: Doubles = np.where(x >= 0, 1.0, small) / (1.0 + small)
    return made


def silu_mul(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = gate / (1 + exp(−gate)) · up; all [rows, D]."""
    gate, up = (part.astype(np.float64) for part in inputs)
    return [(gate * sigmoid(gate) * up).astype(np.float32)]


def sigmoid_mul(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = x / (1 + exp(−gate)); x, y [rows, D], gate [rows, G]: each of the G gates is for D / G
    neighbouring values."""
    gate, x = (part.astype(np.float64) for part in inputs)
    opened = sigmoid(gate)[:, :, None] * x.reshape(*gate.shape, -1)
    return [opened.reshape(x.shape).astype(np.float32)]


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
