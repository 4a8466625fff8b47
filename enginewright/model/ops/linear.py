"""`linear`: a matrix, and a bias if there is one."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.step import Doubles, Floats, Step

_CHUNK = 4096


def linear(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = x · wᵀ + b; x [rows, in], w [out, in], b [out], y [rows, out]; sums in float64."""
    x: Doubles = inputs[0].astype(np.float64)
    matrix = weights[0]
    y: Floats = np.empty((len(x), len(matrix)), np.float32)
    # In pieces, so that a large head is never held in float64 as a whole.
    for first in range(0, len(matrix), _CHUNK):
        piece = slice(first, first + _CHUNK)
        part: Doubles = x @ matrix[piece].T.astype(np.float64)
        if len(weights) == 2:
            part += weights[1][piece]
        y[:, piece] = part
    return [y]
