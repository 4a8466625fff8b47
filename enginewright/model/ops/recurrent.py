"""`causal_conv` and `delta_rule`: each row carries a state of its slot on, from zero at position
0."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Op
from enginewright.model.ops.elementwise import sigmoid
from enginewright.model.ops.step import Doubles, Floats, Step


def causal_conv(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """y = silu(sum over j of w[c, j] · x[t − K + 1 + j, c]): a filter of each channel over the last
    K rows of the sequence; x, y [tokens, C], w [C, 1, K].

    The state holds the K − 1 rows before, oldest first, `[slots, K − 1, C]`.
    """
    state = step.states[op.id]
    taps: Doubles = weights[0][:, 0, :].T.astype(np.float64)
    y = np.empty_like(inputs[0])
    for rows in step.segments:
        slot = int(step.slots[rows.start])
        if step.positions[rows.start] == 0:
            state[slot] = 0
        for row in range(rows.start, rows.stop):
            window = np.concatenate([state[slot], inputs[0][row : row + 1]])
            mixed = (window.astype(np.float64) * taps).sum(axis=0)
            y[row] = (mixed * sigmoid(mixed)).astype(np.float32)
            state[slot] = window[1:]
    return [y]


def delta_rule(op: Op, inputs: list[Floats], weights: list[Floats], step: Step) -> list[Floats]:
    """The gated delta rule, row after row.

    Shapes: mixed [tokens, 2 · key_heads · key_dim + value_heads · value_dim] holds q, k and v;
    b, a [tokens, value_heads]; a_log, dt_bias [value_heads]; o [tokens, value_heads · value_dim].
    The state is `[slots, value_heads, key_dim, value_dim]`, kept in float32 between steps.

    For each value head h, which reads key head h // (value_heads / key_heads):
    q, k become x / sqrt(sum(x²) + epsilon), q also / sqrt(key_dim);
    S ← exp(−exp(a_log) · softplus(a + dt_bias)) · S;
    S ← S + k ⊗ (sigmoid(b) · (v − Sᵀk)); o = Sᵀq.

    Source: `torch_recurrent_gated_delta_rule` of transformers' Qwen3.5; arXiv 2412.06464.
    """
    mixed, b, a = (part.astype(np.float64) for part in inputs)
    a_log, dt_bias = (part.astype(np.float64) for part in weights)
    key_heads, value_heads, key_dim, value_dim = (
        op.integer(name) for name in ("key_heads", "value_heads", "key_dim", "value_dim")
    )
    keys, repeat = key_heads * key_dim, value_heads // key_heads
    q, k = (
        np.repeat(_unit(part.reshape(-1, key_heads, key_dim), op.number("epsilon")), repeat, axis=1)
        for part in (mixed[:, :keys], mixed[:, keys : 2 * keys])
    )
    q = q / np.sqrt(key_dim)
    v = mixed[:, 2 * keys :].reshape(-1, value_heads, value_dim)
    beta = sigmoid(b)
    decay = np.exp(-np.exp(a_log) * np.logaddexp(0.0, a + dt_bias))
    state = step.states[op.id]
    o = np.empty_like(v)
    for rows in step.segments:
        slot = int(step.slots[rows.start])
        if step.positions[rows.start] == 0:
            state[slot] = 0
        held = state[slot].astype(np.float64)
        for row in range(rows.start, rows.stop):
            held *= decay[row, :, None, None]
            known = np.einsum("hkv,hk->hv", held, k[row])
            held += k[row][:, :, None] * (beta[row, :, None] * (v[row] - known))[:, None, :]
            o[row] = np.einsum("hkv,hk->hv", held, q[row])
        state[slot] = held.astype(np.float32)
    return [o.reshape(len(o), -1).astype(np.float32)]


def _unit(x: Doubles, epsilon: float) -> Doubles:
    scaled: Doubles = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + epsilon)
    return scaled
