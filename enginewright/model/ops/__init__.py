"""What every op means, in NumPy: sums in float64, results rounded once to float32.

`OPS` maps a kind of the op table to its function. A function takes the op, its input buffers, its
weights as float32
(dequantised) and the step; it gives the output buffers. `kv_write` changes the step's cache,
`causal_conv` and `delta_rule` change its states.
"""

from collections.abc import Callable

from enginewright.model.graph import Op
from enginewright.model.ops.attention import attention, kv_write, self_attention
from enginewright.model.ops.elementwise import add, gelu, sigmoid_mul, silu_mul
from enginewright.model.ops.embed import embed
from enginewright.model.ops.experts import experts, top_k_gate
from enginewright.model.ops.linear import linear
from enginewright.model.ops.norm import (
    gated_norm,
    head_norm,
    l2_norm,
    layer_norm,
    rms_norm,
    zero_centred_norm,
)
from enginewright.model.ops.recurrent import causal_conv, delta_rule
from enginewright.model.ops.rope import rope
from enginewright.model.ops.rows import first_pool, head_slice, mean_pool, select_rows
from enginewright.model.ops.step import Cache, Floats, Step, whole_sequences

OpFunction = Callable[[Op, list[Floats], list[Floats], Step], list[Floats]]

OPS: dict[str, OpFunction] = {
    "embed": embed,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "head_norm": head_norm,
    "zero_centred_norm": zero_centred_norm,
    "gated_norm": gated_norm,
    "linear": linear,
    "head_slice": head_slice,
    "rope": rope,
    "kv_write": kv_write,
    "attention": attention,
    "self_attention": self_attention,
    "causal_conv": causal_conv,
    "delta_rule": delta_rule,
    "silu_mul": silu_mul,
    "sigmoid_mul": sigmoid_mul,
    "top_k_gate": top_k_gate,
    "experts": experts,
    "gelu": gelu,
    "add": add,
    "select_rows": select_rows,
    "mean_pool": mean_pool,
    "first_pool": first_pool,
    "l2_norm": l2_norm,
}
"""Every op kind, by name."""

__all__ = ["OPS", "Cache", "Floats", "OpFunction", "Step", "whole_sequences"]
