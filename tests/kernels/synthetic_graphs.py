"""Small graphs without weights: every op kind, stored type and attribute that kernels may meet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from enginewright.model.dtypes import SUPPORTED
from enginewright.model.graph import Graph

HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
HIDDEN = HEADS * HEAD_DIM
KV_WIDTH = KV_HEADS * HEAD_DIM
FEED_FORWARD, VOCABULARY, CONTEXT = 512, 96, 128


@dataclass(frozen=True)
class Form:
    """What a synthetic graph is made of."""

    dtype: str = "f32"
    value_dtype: str = ""
    """Of the values' and the down matrix, if another: as llama.cpp mixes types."""
    pairing: str = "half"
    window: int = 0
    has_biases: bool = False
    gelu: str = "erf"
    pool: str = "mean_pool"
    has_head_norms: bool = False
    is_hybrid: bool = False
    """Whether a Gated DeltaNet and experts stand behind the attention; only with plain floats."""


@dataclass
class GraphMaker:
    """Collects ops; the current buffer of a chain is what the last one wrote."""

    form: Form
    buffers: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    ops: list[dict[str, Any]] = field(default_factory=list)
    offset: int = 0

    def weight(self, name: str, *shape: int, dtype: str = "f32") -> str:
        """A stored weight."""
        stored = SUPPORTED[dtype]
        size = int(np.prod(shape)) // stored.block_values * stored.block_bytes
        self.weights[name] = {
            "file": 0, "offset": self.offset, "bytes": size, "dtype": dtype, "shape": list(shape)
        }  # fmt: skip
        self.offset += -(-size // 64) * 64
        return name

    def op(
        self,
        name: str,
        kind: str,
        inputs: list[str],
        width: int,
        *,
        weights: tuple[str, ...] = (),
        rows: str = "tokens",
        **attributes: Any,
    ) -> str:
        """An op and the buffer it writes, of the same name; `width` 0 is no output."""
        if width:
            self.buffers[name] = {"rows": rows, "width": width}
        self.ops.append(
            {"id": name, "kind": kind, "inputs": inputs, "outputs": [name] if width else [],
             "weights": list(weights), "attributes": attributes}
        )  # fmt: skip
        return name

    def linear(self, name: str, x: str, outputs: int, *, rows: str = "tokens") -> str:
        """A matrix of the form's type, with its bias if it has them."""
        inputs = self.buffers[x]["width"]
        dtype = (name in ("v", "down") and self.form.value_dtype) or self.form.dtype
        weights = [self.weight(f"{name}.weight", outputs, inputs, dtype=dtype)]
        if self.form.has_biases:
            weights.append(self.weight(f"{name}.bias", outputs))
        return self.op(name, "linear", [x], outputs, weights=tuple(weights), rows=rows)

    def norm(self, name: str, kind: str, x: str, *, rows: str = "tokens") -> str:
        """RMS norm or layer norm."""
        weights = [self.weight(f"{name}.weight", HIDDEN)]
        if kind == "layer_norm":
            weights.append(self.weight(f"{name}.bias", HIDDEN))
        return self.op(name, kind, [x], HIDDEN, weights=tuple(weights), rows=rows, epsilon=1e-5)

    def head_norm(self, name: str, x: str, heads: int) -> str:
        """RMS norm of each head."""
        return self.op(
            name, "head_norm", [x], heads * HEAD_DIM, weights=(self.weight(f"{name}.w", HEAD_DIM),),
            heads=heads, head_dim=HEAD_DIM, epsilon=1e-6,
        )  # fmt: skip

    def rope(self, name: str, x: str, heads: int) -> str:
        """Turns pairs of each head."""
        frequencies = (10000.0 ** (-np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))).astype(np.float32)
        self.constants["rope"] = {"shape": [HEAD_DIM // 2], "values": frequencies.tolist()}
        return self.op(
            name, "rope", [x], heads * HEAD_DIM, weights=("rope",), heads=heads,
            head_dim=HEAD_DIM, rotary=HEAD_DIM, pairing=self.form.pairing, magnitude=1.0,
        )  # fmt: skip

    def graph(self, family: str, kind: str, output: str) -> Graph:
        """The graph, verified."""
        held = {
            "format": "enginewright.graph/1", "name": "synthetic", "family": family, "kind": kind,
            "dimensions": {
                "hidden": HIDDEN, "layers": 1, "heads": HEADS, "kv_heads": KV_HEADS,
                "head_dim": HEAD_DIM, "feed_forward": FEED_FORWARD, "vocabulary": VOCABULARY,
                "context": CONTEXT,
            },
            "files": [{"path": "synthetic.bin", "bytes": self.offset, "sha256": "0" * 64}],
            "weights": self.weights, "constants": self.constants, "buffers": self.buffers,
            "ops": self.ops, "output": output,
            "text": {
                "chat_template": None, "bos_id": None, "eos_ids": [0], "add_bos": False,
                "bos_token": None, "eos_token": "end",
            },
        }  # fmt: skip
        graph = Graph.model_validate(held)
        graph.verify()
        return graph


def decoder(form: Form) -> Graph:
    """One layer of a llama, 256 wide, 4 heads over 2."""
    make = GraphMaker(form)
    table = make.weight("tokens.weight", VOCABULARY, HIDDEN, dtype=form.dtype)
    x = make.op("embed", "embed", [], HIDDEN, weights=(table,), tables=["token"], position_offset=0)
    h = make.norm("norm1", "rms_norm", x)
    q, k, v = (
        make.linear(name, h, width)
        for name, width in (("q", HIDDEN), ("k", KV_WIDTH), ("v", KV_WIDTH))
    )
    if form.has_head_norms:
        q, k = make.head_norm("q_norm", q, HEADS), make.head_norm("k_norm", k, KV_HEADS)
    q, k = make.rope("q_rope", q, HEADS), make.rope("k_rope", k, KV_HEADS)
    make.op("cache", "kv_write", [k, v], 0, layer=0, kv_heads=KV_HEADS, head_dim=HEAD_DIM)
    a = make.op(
        "attention", "attention", [q], HIDDEN, layer=0, heads=HEADS, kv_heads=KV_HEADS,
        head_dim=HEAD_DIM, scale=HEAD_DIM**-0.5, window=form.window,
    )  # fmt: skip
    x = make.op("add1", "add", [x, make.linear("o", a, HIDDEN)], HIDDEN)
    if form.is_hybrid:
        x = hybrid_layer(make, x)
    h = make.norm("norm2", "rms_norm", x)
    gate, up = make.linear("gate", h, FEED_FORWARD), make.linear("up", h, FEED_FORWARD)
    h = make.op("silu_mul", "silu_mul", [gate, up], FEED_FORWARD)
    x = make.op("add2", "add", [x, make.linear("down", h, HIDDEN)], HIDDEN)
    x = make.op("select", "select_rows", [x], HIDDEN, rows="selected")
    x = make.norm("norm", "rms_norm", x, rows="selected")
    return make.graph("llama", "decoder", make.linear("head", x, VOCABULARY, rows="selected"))


def hybrid_layer(make: GraphMaker, x: str) -> str:
    """A Gated DeltaNet of 2 key heads of 24 and 4 value heads of 40, and a mixture of 6 experts."""
    key_heads, value_heads, key_dim, value_dim, kernel = 2, 4, 24, 40, 4
    values = value_heads * value_dim
    width = 2 * key_heads * key_dim + values
    h = make.op(
        "delta_in", "zero_centred_norm", [x], HIDDEN, heads=1, head_dim=HIDDEN, epsilon=1e-6,
        weights=(make.weight("delta_in.w", HIDDEN),),
    )  # fmt: skip
    mixed, b, a, both = (
        make.linear(name, h, made)
        for name, made in (
            ("mixed", width), ("b", value_heads), ("a", value_heads), ("z_and_gate", 2 * values)
        )
    )  # fmt: skip
    z, gate = (
        make.op(
            name, "head_slice", [both], values, heads=value_heads, head_dim=2 * value_dim,
            first=first, count=value_dim,
        )
        for name, first in (("z", 0), ("gate_values", value_dim))
    )  # fmt: skip
    mixed = make.op(
        "conv", "causal_conv", [mixed], width, layer=0, kernel=kernel,
        weights=(make.weight("conv.w", width, 1, kernel, dtype="bf16"),),
    )  # fmt: skip
    o = make.op(
        "delta", "delta_rule", [mixed, b, a], values, layer=0, key_heads=key_heads,
        value_heads=value_heads, key_dim=key_dim, value_dim=value_dim, epsilon=1e-6,
        weights=(make.weight("a_log", value_heads), make.weight("dt_bias", value_heads)),
    )  # fmt: skip
    o = make.op(
        "delta_norm", "gated_norm", [o, z], values, heads=value_heads, head_dim=value_dim,
        epsilon=1e-6, weights=(make.weight("delta_norm.w", value_dim),),
    )  # fmt: skip
    o = make.op("gated", "sigmoid_mul", [gate, o], values)
    o = make.op("gated_heads", "sigmoid_mul", [b, o], values)
    x = make.op("delta_add", "add", [x, make.linear("delta_out", o, HIDDEN)], HIDDEN)
    count, inner = 6, 48
    gates = make.op("gates", "top_k_gate", [make.linear("router", x, count)], count, top_k=2)
    matrices = tuple(
        make.weight(f"experts.{expert}.{part}", *shape, dtype=make.form.dtype)
        for expert in range(count)
        for part, shape in (
            ("gate", (inner, HIDDEN)),
            ("up", (inner, HIDDEN)),
            ("down", (HIDDEN, inner)),
        )
    )
    return make.op(
        "experts",
        "experts",
        [x, gates],
        HIDDEN,
        weights=matrices,
        experts=count,
        inner=inner,
        top_k=2,
    )


def encoder(form: Form) -> Graph:
    """One layer of a BERT, 256 wide, 4 heads."""
    form = replace(form, has_biases=True)
    make = GraphMaker(form)
    tables = tuple(
        make.weight(f"{name}.weight", rows, HIDDEN, dtype=form.dtype)
        for name, rows in (("token", VOCABULARY), ("position", CONTEXT + 2), ("type", 2))
    )
    x = make.op(
        "embed", "embed", [], HIDDEN, weights=tables, tables=["token", "position", "type"],
        position_offset=2,
    )  # fmt: skip
    x = make.norm("embed_norm", "layer_norm", x)
    q, k, v = (make.linear(name, x, HIDDEN) for name in ("q", "k", "v"))
    a = make.op(
        "attention", "self_attention", [q, k, v], HIDDEN, heads=HEADS, head_dim=HEAD_DIM,
        scale=HEAD_DIM**-0.5,
    )  # fmt: skip
    x = make.op("add1", "add", [make.linear("o", a, HIDDEN), x], HIDDEN)
    x = make.norm("norm1", "layer_norm", x)
    h = make.linear("up", x, FEED_FORWARD)
    h = make.op("gelu", "gelu", [h], FEED_FORWARD, form=form.gelu)
    x = make.op("add2", "add", [make.linear("down", h, HIDDEN), x], HIDDEN)
    x = make.norm("norm2", "layer_norm", x)
    x = make.op("pool", form.pool, [x], HIDDEN, rows="segments")
    x = make.op("unit", "l2_norm", [x], HIDDEN, rows="segments", epsilon=1e-12)
    return make.graph("bert", "encoder", x)
