"""`rope`: pairs of a head's values turn by position times frequency."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.step import Floats, Step


def rope(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y [rows, heads · head_dim] from x of that shape and frequencies [rotary / 2].

    (a, b) → magnitude · (a cos θ − b sin θ, a sin θ + b cos θ), θ = position · frequency rounded to
    float32, as transformers has it. Pairs are (2i, 2i + 1) or (i, i + rotary / 2); values behind
    `rotary` stay.
    """
    heads, head_dim, rotary = op.integer("heads"), op.integer("head_dim"), op.integer("rotary")
    x = inputs[0].reshape(-1, heads, head_dim).astype(np.float64)
    angles = step.positions.astype(np.float32)[:, None] * weights[0].astype(np.float32)[None, :]
    turns = angles.astype(np.float64)[:, None, :]
    cosine, sine = (op.number("magnitude") * f(turns) for f in (np.cos, np.sin))
    if op.attributes["pairing"] == "adjacent":
        first, second = np.s_[..., 0:rotary:2], np.s_[..., 1:rotary:2]
    else:
        first, second = np.s_[..., 0 : rotary // 2 : 1], np.s_[..., rotary // 2 : rotary : 1]
    y = x.copy()
    y[first] = x[first] * cosine - x[second] * sine
    y[second] = x[first] * sine + x[second] * cosine
    return [y.reshape(inputs[0].shape).astype(np.float32)]
