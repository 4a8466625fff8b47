"""What every op means, in NumPy: sums in float64, results rounded once to float32.

`OPS` maps a kind of the op table to its function. A function takes the op, its input buffers, its
weights as float32
(dequantised) and the step; it gives the output buffers, and `kv_write` changes the step's cache.
"""

from collections.abc import Callable

from enginewright.model.graph import Op
from enginewright.model.ops.attention import attention, kv_write, self_attention
from enginewright.model.ops.elementwise import add, gelu, silu_mul
from enginewright.model.ops.embed import embed
from enginewright.model.ops.linear import linear
from enginewright.model.ops.norm import head_norm, l2_norm, layer_norm, rms_norm
from enginewright.model.ops.rope import rope
from enginewright.model.ops.rows import first_pool, mean_pool, select_rows
from enginewright.model.ops.step import Cache, Floats, Step, whole_sequences

OpFunction = Callable[[Op, list[Floats], list[Floats], Step], list[Floats]]

OPS: dict[str, OpFunction] = {
    "embed": embed,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "head_norm": head_norm,
    "linear": linear,
    "rope": rope,
    "kv_write": kv_write,
    "attention": attention,
    "self_attention": self_attention,
    "silu_mul": silu_mul,
    "gelu": gelu,
    "add": add,
    "select_rows": select_rows,
    "mean_pool": mean_pool,
    "first_pool": first_pool,
    "l2_norm": l2_norm,
}
"""Every op kind, by name."""

__all__ = ["OPS", "Cache", "Floats", "OpFunction", "Step", "whole_sequences"]
