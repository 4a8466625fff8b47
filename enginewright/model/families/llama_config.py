"""What a llama-like decoder's configuration says, whichever container it came in."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.read_json import Fields
from enginewright.model.rope import Rope, rope_from_config, rope_from_gguf

GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")
CONFIG_MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
HEAD_NORMED = ("qwen3",)
"""Architectures that normalise each head of queries and keys before it turns."""
HEAD_DIM_DEFAULTS = {"qwen3": 128}
"""`head_dim` where config.json has none and it is not the hidden size over the heads."""

MOST_LAYERS = 4096
MOST_HEAD_VALUES = 1 << 16
MOST_WIDTH = 1 << 24
"""Bounds far above any model, so that a damaged field costs no memory."""

GGUF_NAMES = {
    "embedding": "token_embd.weight",
    "attention_norm": "blk.{}.attn_norm.weight",
    "q": "blk.{}.attn_q",
    "k": "blk.{}.attn_k",
    "v": "blk.{}.attn_v",
    "q_norm": "blk.{}.attn_q_norm.weight",
    "k_norm": "blk.{}.attn_k_norm.weight",
    "attention_output": "blk.{}.attn_output",
    "feed_forward_norm": "blk.{}.ffn_norm.weight",
    "gate": "blk.{}.ffn_gate",
    "up": "blk.{}.ffn_up",
    "down": "blk.{}.ffn_down",
    "final_norm": "output_norm.weight",
    "head": "output",
}
"""Tensor names of llama.cpp's converter; a linear's name lacks `.weight` and `.bias`."""

CONFIG_NAMES = {
    "embedding": "embed_tokens.weight",
    "attention_norm": "layers.{}.input_layernorm.weight",
    "q": "layers.{}.self_attn.q_proj",
    "k": "layers.{}.self_attn.k_proj",
    "v": "layers.{}.self_attn.v_proj",
    "q_norm": "layers.{}.self_attn.q_norm.weight",
    "k_norm": "layers.{}.self_attn.k_norm.weight",
    "attention_output": "layers.{}.self_attn.o_proj",
    "feed_forward_norm": "layers.{}.post_attention_layernorm.weight",
    "gate": "layers.{}.mlp.gate_proj",
    "up": "layers.{}.mlp.up_proj",
    "down": "layers.{}.mlp.down_proj",
    "final_norm": "norm.weight",
}
"""Tensor names of transformers, behind `model.`; the head is `lm_head`, without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """A llama-like decoder."""

    hidden: int
    """Width of the residual stream."""
    layers: int
    """Layers."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    head_dim: int
    """Values in a head."""
    feed_forward: int
    """Inner width of the feed-forward part."""
    vocabulary: int
    """Rows of the embedding."""
    context: int
    """Most positions."""
    epsilon: float
    """Of the norms."""
    rotary: int
    """Values of a head that turn."""
    rope: Rope
    """How they turn."""
    pairing: str
    """`adjacent` or `half`."""
    has_head_norms: bool
    """Whether queries and keys are normalised, head by head, before they turn."""
    windows: tuple[int, ...]
    """Sliding window of each layer; 0 = none."""
    is_tied: bool
    """Whether the head is the embedding."""
    names: dict[str, str]
    """Tensor names by role."""


def read_llama_config(checkpoint: Checkpoint) -> LlamaConfig:
    """Raises: CheckpointError naming the field that is missing, wrong or not supported."""
    config = _from_gguf(checkpoint) if checkpoint.format == "gguf" else _from_config(checkpoint)
    where = checkpoint.described_as
    if config.heads % config.kv_heads:
        raise CheckpointError(
            f"{where}: {config.heads} heads do not divide into {config.kv_heads} key-value heads"
        )
    if config.rotary % 2 or config.rotary > config.head_dim:
        raise CheckpointError(
            f"{where}: {config.rotary} rotary values do not fit a head of {config.head_dim}"
        )
    return config


def _from_gguf(checkpoint: Checkpoint) -> LlamaConfig:
    architecture = checkpoint.config["general.architecture"]
    fields = Fields(checkpoint.config, source=checkpoint.described_as, prefix=f"{architecture}.")
    if fields.integer("expert_count", 0, least=0):
        raise CheckpointError(
            f"{checkpoint.described_as}: field `{architecture}.expert_count` is "
            f"{fields.integer('expert_count')}; mixtures of experts are not supported"
        )
    hidden = fields.integer("embedding_length", most=MOST_WIDTH)
    heads = fields.integer("attention.head_count", most=MOST_HEAD_VALUES)
    head_dim = fields.integer("attention.key_length", hidden // heads, most=MOST_HEAD_VALUES)
    if fields.integer("attention.value_length", head_dim) != head_dim:
        raise CheckpointError(
            f"{checkpoint.described_as}: keys and values of different length are not supported"
        )
    rotary = fields.integer("rope.dimension_count", head_dim, most=MOST_HEAD_VALUES)
    layers = fields.integer("block_count", most=MOST_LAYERS)
    return LlamaConfig(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        feed_forward=fields.integer("feed_forward_length"),
        vocabulary=_embedding_rows(checkpoint, GGUF_NAMES["embedding"]),
        context=fields.integer("context_length"),
        epsilon=fields.number("attention.layer_norm_rms_epsilon"),
        rotary=rotary,
        rope=rope_from_gguf(checkpoint, fields, rotary=rotary),
        # The converter permutes Q and K of llama so that pairs are neighbours; it leaves the others
        # alone.
        pairing="adjacent" if architecture == "llama" else "half",
        has_head_norms=architecture in HEAD_NORMED,
        windows=(fields.integer("attention.sliding_window", 0, least=0),) * layers,
        is_tied="output.weight" not in checkpoint.tensors,
        names=GGUF_NAMES,
    )


def _from_config(checkpoint: Checkpoint) -> LlamaConfig:
    fields = Fields(checkpoint.config, source=str(checkpoint.folder / "config.json"))
    activation = fields.text("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise CheckpointError(
            f"{fields.source}: field `hidden_act` is {activation!r}; expected silu"
        )
    hidden = fields.integer("hidden_size", most=MOST_WIDTH)
    heads = fields.integer("num_attention_heads", most=MOST_HEAD_VALUES)
    model_type = fields.text("model_type")
    usual = HEAD_DIM_DEFAULTS.get(model_type, hidden // heads)
    head_dim = fields.integer("head_dim", usual, most=MOST_HEAD_VALUES)
    for section in (fields, fields.section("rope_parameters")):
        if section is not None and section.number("partial_rotary_factor", 1.0) != 1.0:
            raise CheckpointError(
                f"{section.source}: field `partial_rotary_factor` is "
                f"{section.number('partial_rotary_factor')}; these families turn whole heads"
            )
    layers = fields.integer("num_hidden_layers", most=MOST_LAYERS)
    prefix = "" if CONFIG_NAMES["embedding"] in checkpoint.tensors else "model."
    names = {role: prefix + name for role, name in CONFIG_NAMES.items()} | {"head": "lm_head"}
    return LlamaConfig(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        feed_forward=fields.integer("intermediate_size"),
        vocabulary=_embedding_rows(checkpoint, names["embedding"]),
        context=fields.integer("max_position_embeddings"),
        epsilon=fields.number("rms_norm_eps", 1e-6),
        rotary=head_dim,
        rope=rope_from_config(fields, rotary=head_dim),
        pairing="half",
        has_head_norms=model_type in HEAD_NORMED,
        windows=_windows(fields, layers),
        is_tied=fields.flag("tie_word_embeddings", False),
        names=names,
    )


def _windows(fields: Fields, layers: int) -> tuple[int, ...]:
    model_type = fields.text("model_type")
    if model_type == "llama" or "sliding_window" not in fields:
        return (0,) * layers
    window = fields.integer("sliding_window")
    if model_type == "mistral":
        return (window,) * layers
    if not fields.flag("use_sliding_window", False):
        return (0,) * layers
    kinds = fields.values.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)
    first = fields.integer("max_window_layers", layers, least=0)
    return tuple(window if layer >= first else 0 for layer in range(layers))


def _embedding_rows(checkpoint: Checkpoint, name: str) -> int:
    shape = checkpoint.tensor(name).shape
    if len(shape) != 2:
        raise CheckpointError(
            f"{checkpoint.described_as}: tensor `{name}` has shape {list(shape)}; expected two "
            "sizes"
        )
    return shape[0]
