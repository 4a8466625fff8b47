"""`embed`: the sum of a row of each table."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.step import Doubles, Floats, Step


def embed(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """x [tokens, D] from tables [n, D]: rows of the token id, of the position plus its offset, of
    type 0."""
    tables = op.attributes["tables"]
    assert isinstance(tables, list)
    total: Doubles = np.zeros((len(step.token_ids), weights[0].shape[1]))
    for table, rows in zip(tables, weights, strict=True):
        if table == "token":
            total += rows[step.token_ids]
        elif table == "position":
            total += rows[step.positions + op.integer("position_offset")]
        else:
            total += rows[0]
    return [total.astype(np.float32)]
