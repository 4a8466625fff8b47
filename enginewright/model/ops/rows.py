"""`select_rows`, `mean_pool`, `first_pool`: from rows of tokens to rows that are wanted."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.step import Floats, Step


def select_rows(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y [selected, D]: the wanted rows of x [tokens, D], in the order asked for."""
    return [inputs[0][step.selected_rows]]


def mean_pool(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y [segments, D]: the mean of each segment's rows of x [tokens, D]."""
    means = [inputs[0][rows].mean(axis=0, dtype=np.float64) for rows in step.segments]
    return [np.stack(means).astype(np.float32)]


def first_pool(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y [segments, D]: the first row of each segment of x [tokens, D]."""
    return [inputs[0][step.starts[:-1]]]


def head_slice(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """The values `first .. first + count` of each head; x [rows, heads · head_dim],
    y [rows, heads · count]."""
    first, count = op.integer("first"), op.integer("count")
    x = inputs[0].reshape(len(inputs[0]), op.integer("heads"), op.integer("head_dim"))
    return [np.ascontiguousarray(x[:, :, first : first + count]).reshape(len(x), -1)]
