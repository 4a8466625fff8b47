"""The shapes that `time_projections.py` times: models, their groups, and the types of matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace

BLOCK_BYTES = {
    "q4_0": (32, 18),
    "q4_1": (32, 20),
    "q5_0": (32, 22),
    "q8_0": (32, 34),
    "q4_k": (256, 144),
    "q6_k": (256, 210),
}
"""Values and bytes of a stored block."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """Widths of a llama-like decoder."""

    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    vocabulary: int


MODELS = {
    "smollm2-135m": Model(
        hidden=576,
        feed_forward=1536,
        heads=9,
        kv_heads=3,
        head_dim=64,
        layers=30,
        vocabulary=49152,
    ),
    "llama-3.2-1b": Model(
        hidden=2048,
        feed_forward=8192,
        heads=32,
        kv_heads=8,
        head_dim=64,
        layers=16,
        vocabulary=128256,
    ),
}
"""By name. Rows of the K types are whole blocks of 256 inputs, unlike those of smollm2-135m."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """One matrix."""

    inputs: int
    outputs: int
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Group:
    """One group of a step."""

    label: str
    """Kind, in the printed table."""
    ops: str
    """Kinds of its ops."""
    inputs: tuple[int, ...]
    """Widths of what it reads."""
    outputs: tuple[int, ...]
    """Widths of what it writes."""
    matrices: tuple[Matrix, ...]
    """In order."""
    model: Model
    """Whose it is."""

    def alone(self) -> list[Group]:
        """Each product as a group of its own."""
        return [
            replace(
                self,
                ops="linear",
                inputs=(one.inputs,),
                outputs=(one.outputs,),
                matrices=(one,),
            )
            for one in self.matrices
        ]


def groups(model: Model, layers: int, layer_format: str, head_format: str) -> list[Group]:
    """The groups of all layers, then the head.

    With `q4_k_m` the values and the way down are Q6_K in every other layer, the rest is Q4_K:
    llama.cpp does so in half of the layers.
    """
    mixes = layer_format == "q4_k_m"
    plain = "q4_k" if mixes else layer_format
    found = []
    for layer in range(layers):
        found += _layer(model, plain, "q6_k" if mixes and layer % 2 == 0 else plain)
    head = Matrix(inputs=model.hidden, outputs=model.vocabulary, dtype=head_format)
    found.append(
        Group(
            label="head",
            ops="select_rows rms_norm linear",
            inputs=(model.hidden,),
            outputs=(model.vocabulary,),
            matrices=(head,),
            model=model,
        )
    )
    return found


def _layer(model: Model, plain: str, better: str) -> list[Group]:
    hidden, wide = model.hidden, model.feed_forward
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return [
        Group(
            label="qkv",
            ops="rms_norm linear linear linear rope rope kv_write",
            inputs=(hidden,),
            outputs=(queries,),
            matrices=(
                Matrix(inputs=hidden, outputs=queries, dtype=plain),
                Matrix(inputs=hidden, outputs=keys, dtype=plain),
                Matrix(inputs=hidden, outputs=keys, dtype=better),
            ),
            model=model,
        ),
        Group(
            label="o",
            ops="linear add",
            inputs=(queries, hidden),
            outputs=(hidden,),
            matrices=(Matrix(inputs=queries, outputs=hidden, dtype=plain),),
            model=model,
        ),
        Group(
            label="gate_up",
            ops="rms_norm linear linear silu_mul",
            inputs=(hidden,),
            outputs=(wide,),
            matrices=(Matrix(inputs=hidden, outputs=wide, dtype=plain),) * 2,
            model=model,
        ),
        Group(
            label="down",
            ops="linear add",
            inputs=(wide, hidden),
            outputs=(hidden,),
            matrices=(Matrix(inputs=wide, outputs=hidden, dtype=better),),
            model=model,
        ),
    ]


def weight_bytes(group: Group) -> list[int]:
    """Stored bytes of the weights of a group, in the order of its ops."""
    matrices, sizes = iter(group.matrices), []
    for op in group.ops.split():
        if op == "rms_norm":
            sizes.append(4 * group.inputs[0])
        if op == "linear":
            one = next(matrices)
            values, size = BLOCK_BYTES[one.dtype]
            sizes.append(one.inputs // values * size * one.outputs)
        if op == "rope":
            sizes.append(4 * group.model.head_dim // 2)
    return sizes
