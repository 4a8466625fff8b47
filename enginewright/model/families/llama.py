"""llama-like decoders: RMS norm, grouped-query attention with RoPE, gated SiLU feed-forward.

Source: `modeling_llama.py`, `modeling_mistral.py`, `modeling_qwen2.py` and `modeling_qwen3.py` of
transformers. The families differ in biases, windows, norms of heads and names only; `llama_config`
reads those.
"""

from __future__ import annotations

from enginewright.model.checkpoint import Checkpoint
from enginewright.model.families.llama_config import LlamaConfig, read_llama_config
from enginewright.model.graph import Attribute, Dimensions, Graph
from enginewright.model.graph_builder import GraphBuilder
from enginewright.model.text import read_text


def llama_graph(checkpoint: Checkpoint) -> Graph:
    """Logits `[selected, vocabulary]` of a llama-like decoder.

    Raises: CheckpointError if configuration and weights do not fit.
    """
    config = read_llama_config(checkpoint)
    build = GraphBuilder(checkpoint)
    embedding = build.weight(config.names["embedding"], (config.vocabulary, config.hidden))
    frequencies = build.constant("rope.frequencies", config.rope.frequencies)
    stream = build.add(
        "embed",
        "embed",
        [],
        width=config.hidden,
        weights=[embedding],
        attributes={"tables": ["token"], "position_offset": 0},
    )
    for layer in range(config.layers):
        stream = _attention(build, config, layer, stream, frequencies)
        stream = _feed_forward(build, config, layer, stream)
    stream = build.add("select", "select_rows", [stream], width=config.hidden)
    stream = _norm(build, config, "norm", config.names["final_norm"], stream)
    if config.is_tied:
        output = build.add(
            "logits", "linear", [stream], width=config.vocabulary, weights=[embedding]
        )
    else:
        output = _linear(
            build, "logits", config.names["head"], stream, config.hidden, config.vocabulary
        )
    return build.finish(
        family="llama",
        kind="decoder",
        dimensions=Dimensions(
            hidden=config.hidden,
            layers=config.layers,
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


def _attention(
    build: GraphBuilder, config: LlamaConfig, layer: int, stream: str, frequencies: str
) -> str:
    names = {role: name.format(layer) for role, name in config.names.items()}
    prefix, hidden = f"L{layer}", config.hidden
    q_width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
    h = _norm(build, config, f"{prefix}.norm", names["attention_norm"], stream)
    q = _linear(build, f"{prefix}.q", names["q"], h, hidden, q_width)
    k = _linear(build, f"{prefix}.k", names["k"], h, hidden, kv_width)
    v = _linear(build, f"{prefix}.v", names["v"], h, hidden, kv_width)
    if config.has_head_norms:
        q = _head_norm(build, config, f"{prefix}.q_norm", names["q_norm"], q, config.heads)
        k = _head_norm(build, config, f"{prefix}.k_norm", names["k_norm"], k, config.kv_heads)
    turn: dict[str, Attribute] = {
        "head_dim": config.head_dim,
        "rotary": config.rotary,
        "pairing": config.pairing,
        "magnitude": config.rope.magnitude,
    }
    q = build.add(
        f"{prefix}.rope_q",
        "rope",
        [q],
        width=q_width,
        weights=[frequencies],
        attributes={"heads": config.heads, **turn},
    )
    k = build.add(
        f"{prefix}.rope_k",
        "rope",
        [k],
        width=kv_width,
        weights=[frequencies],
        attributes={"heads": config.kv_heads, **turn},
    )
    where: dict[str, Attribute] = {
        "layer": layer,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
    }
    build.add(f"{prefix}.cache", "kv_write", [k, v], width=0, attributes=where)
    a = build.add(
        f"{prefix}.attention",
        "attention",
        [q],
        width=q_width,
        attributes={
            **where,
            "heads": config.heads,
            "scale": config.head_dim**-0.5,
            "window": config.windows[layer],
        },
    )
    o = _linear(build, f"{prefix}.o", names["attention_output"], a, q_width, hidden)
    return build.add(f"{prefix}.add", "add", [stream, o], width=hidden)


def _feed_forward(build: GraphBuilder, config: LlamaConfig, layer: int, stream: str) -> str:
    names = {role: name.format(layer) for role, name in config.names.items()}
    prefix, hidden, inner = f"L{layer}", config.hidden, config.feed_forward
    h = _norm(build, config, f"{prefix}.ffn_norm", names["feed_forward_norm"], stream)
    gate = _linear(build, f"{prefix}.gate", names["gate"], h, hidden, inner)
    up = _linear(build, f"{prefix}.up", names["up"], h, hidden, inner)
    product = build.add(f"{prefix}.silu_mul", "silu_mul", [gate, up], width=inner)
    down = _linear(build, f"{prefix}.down", names["down"], product, inner, hidden)
    return build.add(f"{prefix}.ffn_add", "add", [stream, down], width=hidden)


def _norm(build: GraphBuilder, config: LlamaConfig, op_id: str, weight: str, x: str) -> str:
    return build.add(
        op_id,
        "rms_norm",
        [x],
        width=config.hidden,
        weights=[build.weight(weight, (config.hidden,))],
        attributes={"epsilon": config.epsilon},
    )


def _head_norm(
    build: GraphBuilder, config: LlamaConfig, op_id: str, weight: str, x: str, heads: int
) -> str:
    return build.add(
        op_id,
        "head_norm",
        [x],
        width=heads * config.head_dim,
        weights=[build.weight(weight, (config.head_dim,))],
        attributes={"heads": heads, "head_dim": config.head_dim, "epsilon": config.epsilon},
    )


def _linear(build: GraphBuilder, op_id: str, name: str, x: str, given: int, made: int) -> str:
    weights = [build.weight(f"{name}.weight", (made, given))]
    weights += build.optional_weight(f"{name}.bias", (made,))
    return build.add(op_id, "linear", [x], width=made, weights=weights)
