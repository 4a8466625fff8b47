"""Qwen3.5, dense and with experts: Gated DeltaNet layers, and every few layers full attention with
an output gate.

Source: `modeling_qwen3_5.py` and `modeling_qwen3_5_moe.py` of transformers. Text only: the vision
tower and the head that predicts several tokens are left out, and with text alone the three axes of
its rope are one.
"""

from __future__ import annotations

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.families.qwen3_5_config import Qwen35Config, read_qwen3_5_config
from enginewright.model.graph import Attribute, Dimensions, Graph
from enginewright.model.graph_builder import GraphBuilder
from enginewright.model.text import read_text

FP8 = "f8_e4m3"


def qwen3_5_graph(checkpoint: Checkpoint) -> Graph:
    """Logits `[selected, vocabulary]` of a Qwen3.5 decoder.

    Raises: CheckpointError if configuration and weights do not fit.
    """
    config = read_qwen3_5_config(checkpoint)
    build = GraphBuilder(checkpoint)
    embedding = build.weight(
        f"{config.prefix}embed_tokens.weight", (config.vocabulary, config.hidden)
    )
    frequencies = build.constant("rope.frequencies", config.rope.frequencies)
    stream = build.add(
        "embed",
        "embed",
        [],
        width=config.hidden,
        weights=[embedding],
        attributes={"tables": ["token"], "position_offset": 0},
    )
    for layer, kind in enumerate(config.layer_kinds):
        block = _Block(build, config, layer)
        h = block.norm("norm", "input_layernorm", stream)
        is_full = kind == "full_attention"
        mixed = block.attention(h, frequencies) if is_full else block.delta_net(h)
        stream = build.add(f"L{layer}.add", "add", [stream, mixed], width=config.hidden)
        h = block.norm("ffn_norm", "post_attention_layernorm", stream)
        fed = (
            block.experts(h)
            if config.experts
            else block.feed_forward(h, "mlp", config.feed_forward)
        )
        stream = build.add(f"L{layer}.ffn_add", "add", [stream, fed], width=config.hidden)
    stream = build.add("select", "select_rows", [stream], width=config.hidden)
    stream = _zero_centred_norm(build, config, "norm", f"{config.prefix}norm.weight", stream, 1)
    if not config.is_tied:
        embedding = build.weight("lm_head.weight", (config.vocabulary, config.hidden))
    output = build.add("logits", "linear", [stream], width=config.vocabulary, weights=[embedding])
    return build.finish(
        family="qwen3_5",
        kind="decoder",
        dimensions=Dimensions(
            hidden=config.hidden,
            layers=len(config.layer_kinds),
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            feed_forward=config.feed_forward,
            vocabulary=config.vocabulary,
            context=config.context,
        ),
        output=output,
        text=read_text(checkpoint, vocabulary=config.vocabulary),
    )


class _Block:
    """The ops of one layer."""

    def __init__(self, build: GraphBuilder, config: Qwen35Config, layer: int) -> None:
        self.build, self.config, self.layer = build, config, layer
        self.names = f"{config.prefix}layers.{layer}."

    def norm(self, op: str, name: str, x: str) -> str:
        weight = f"{self.names}{name}.weight"
        return _zero_centred_norm(self.build, self.config, f"L{self.layer}.{op}", weight, x, 1)

    def linear(self, op: str, name: str, x: str, made: int) -> str:
        given = self.build.width(x)
        weights = [self.build.weight(f"{self.names}{name}.weight", (made, given))]
        weights += self.build.optional_weight(f"{self.names}{name}.bias", (made,))
        return self.build.add(f"L{self.layer}.{op}", "linear", [x], width=made, weights=weights)

    def attention(self, h: str, frequencies: str) -> str:
        """Grouped-query attention; queries come with their gates, head by head."""
        config, build, prefix = self.config, self.build, f"L{self.layer}"
        width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
        both = self.linear("q_and_gate", "self_attn.q_proj", h, 2 * width)
        q, gate = (
            build.add(
                f"{prefix}.{part}",
                "head_slice",
                [both],
                width=width,
                attributes={
                    "heads": config.heads,
                    "head_dim": 2 * config.head_dim,
                    "first": first,
                    "count": config.head_dim,
                },
            )
            for part, first in (("q", 0), ("attention_gate", config.head_dim))
        )
        k = self.linear("k", "self_attn.k_proj", h, kv_width)
        v = self.linear("v", "self_attn.v_proj", h, kv_width)
        turned = []
        for part, x, heads in (("q", q, config.heads), ("k", k, config.kv_heads)):
            weight = f"{self.names}self_attn.{part}_norm.weight"
            x = _zero_centred_norm(build, config, f"{prefix}.{part}_norm", weight, x, heads)
            turned.append(
                build.add(
                    f"{prefix}.rope_{part}",
                    "rope",
                    [x],
                    width=heads * config.head_dim,
                    weights=[frequencies],
                    attributes={
                        "heads": heads,
                        "head_dim": config.head_dim,
                        "rotary": config.rotary,
                        "pairing": "half",
                        "magnitude": config.rope.magnitude,
                    },
                )
            )
        where: dict[str, Attribute] = {
            "layer": self.layer,
            "kv_heads": config.kv_heads,
            "head_dim": config.head_dim,
        }
        build.add(f"{prefix}.cache", "kv_write", [turned[1], v], width=0, attributes=where)
        a = build.add(
            f"{prefix}.attention",
            "attention",
            [turned[0]],
            width=width,
            attributes={
                **where,
                "heads": config.heads,
                "scale": config.head_dim**-0.5,
                "window": 0,
            },
        )
        a = build.add(f"{prefix}.gated", "sigmoid_mul", [gate, a], width=width)
        return self.linear("o", "self_attn.o_proj", a, config.hidden)

    def delta_net(self, h: str) -> str:
        """Gated DeltaNet: convolution over the last rows, delta rule, gated norm."""
        config, build, prefix = self.config, self.build, f"L{self.layer}"
        delta = config.delta
        values = delta.value_heads * delta.value_dim
        mixed_width = 2 * delta.key_heads * delta.key_dim + values
        names = f"{self.names}linear_attn."
        mixed = self.linear("qkv", "linear_attn.in_proj_qkv", h, mixed_width)
        z = self.linear("z", "linear_attn.in_proj_z", h, values)
        b = self.linear("b", "linear_attn.in_proj_b", h, delta.value_heads)
        a = self.linear("a", "linear_attn.in_proj_a", h, delta.value_heads)
        mixed = build.add(
            f"{prefix}.conv",
            "causal_conv",
            [mixed],
            width=mixed_width,
            weights=[build.weight(f"{names}conv1d.weight", (mixed_width, 1, delta.kernel))],
            attributes={"layer": self.layer, "kernel": delta.kernel},
        )
        o = build.add(
            f"{prefix}.delta",
            "delta_rule",
            [mixed, b, a],
            width=values,
            weights=[
                build.weight(f"{names}{name}", (delta.value_heads,))
                for name in ("A_log", "dt_bias")
            ],
            attributes={
                "layer": self.layer,
                "key_heads": delta.key_heads,
                "value_heads": delta.value_heads,
                "key_dim": delta.key_dim,
                "value_dim": delta.value_dim,
                "epsilon": 1e-6,
            },
        )
        o = build.add(
            f"{prefix}.delta_norm",
            "gated_norm",
            [o, z],
            width=values,
            weights=[build.weight(f"{names}norm.weight", (delta.value_dim,))],
            attributes={
                "heads": delta.value_heads,
                "head_dim": delta.value_dim,
                "epsilon": config.epsilon,
            },
        )
        return self.linear("o", "linear_attn.out_proj", o, config.hidden)

    def feed_forward(self, h: str, name: str, inner: int) -> str:
        """Gated SiLU."""
        gate = self.linear("gate", f"{name}.gate_proj", h, inner)
        up = self.linear("up", f"{name}.up_proj", h, inner)
        product = self.build.add(f"L{self.layer}.silu_mul", "silu_mul", [gate, up], width=inner)
        return self.linear("down", f"{name}.down_proj", product, self.config.hidden)

    def expert_matrix(self, name: str, shape: tuple[int, int]) -> str:
        """A matrix of an expert, in plain floats.

        Raises: CheckpointError for FP8, and names the scales if they are missing.
        """
        checkpoint = self.build.checkpoint
        tensor = checkpoint.tensors.get(name)
        if tensor is not None and tensor.dtype == FP8:
            where, scales = f"{checkpoint.described_as}: tensor `{name}`", f"{name}_scale_inv"
            if scales not in checkpoint.tensors:
                raise CheckpointError(
                    f"{where} has dtype `{FP8}`, but its scales `{scales}` are missing",
                    hint="the checkpoint is incomplete; fetch it again",
                )
            raise CheckpointError(
                f"{where} has dtype `{FP8}` with scales of blocks; experts are read in f32, f16 "
                "and bf16 only",
                hint="use the checkpoint in bf16",
            )
        return self.build.weight(name, shape)

    def experts(self, h: str) -> str:
        """The likeliest experts of each row, and one that all rows share, with a gate."""
        config, build, prefix = self.config, self.build, f"L{self.layer}"
        sizes = config.experts
        assert sizes is not None, "only called for models with experts. This is a bug."
        router = self.linear("router", "mlp.gate", h, sizes.count)
        gates = build.add(
            f"{prefix}.gates",
            "top_k_gate",
            [router],
            width=sizes.count,
            attributes={"top_k": sizes.top_k},
        )
        into, out = (sizes.inner, config.hidden), (config.hidden, sizes.inner)
        routed = build.add(
            f"{prefix}.experts",
            "experts",
            [h, gates],
            width=config.hidden,
            weights=[
                self.expert_matrix(f"{self.names}mlp.experts.{expert}.{part}_proj.weight", shape)
                for expert in range(sizes.count)
                for part, shape in (("gate", into), ("up", into), ("down", out))
            ],
            attributes={"experts": sizes.count, "inner": sizes.inner, "top_k": sizes.top_k},
        )
        shared = self.feed_forward(h, "mlp.shared_expert", sizes.shared_inner)
        gate = self.linear("shared_gate", "mlp.shared_expert_gate", h, 1)
        shared = build.add(f"{prefix}.shared", "sigmoid_mul", [gate, shared], width=config.hidden)
        return build.add(f"{prefix}.mixture", "add", [routed, shared], width=config.hidden)


def _zero_centred_norm(
    build: GraphBuilder, config: Qwen35Config, op_id: str, weight: str, x: str, heads: int
) -> str:
    width = build.width(x)
    head_dim = width // heads
    return build.add(
        op_id,
        "zero_centred_norm",
        [x],
        width=width,
        weights=[build.weight(weight, (head_dim,))],
        attributes={"heads": heads, "head_dim": head_dim, "epsilon": config.epsilon},
    )
