"""What a Qwen3.5 checkpoint's configuration says."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.families.llama_config import MOST_HEAD_VALUES, MOST_LAYERS, MOST_WIDTH
from enginewright.model.read_json import Fields
from enginewright.model.rope import Rope, rope_from_config

MOE_MODEL_TYPES = ("qwen3_5_moe", "qwen3_5_moe_text")
QWEN3_5_MODEL_TYPES = ("qwen3_5", "qwen3_5_text", *MOE_MODEL_TYPES)
"""With a vision tower beside the text model (whose fields lie under `text_config`), and alone."""

LAYER_KINDS = ("linear_attention", "full_attention")
MOST_KERNEL = 64
MOST_EXPERTS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConfig:
    """Sizes of the Gated DeltaNet layers."""

    key_heads: int
    """Heads of queries and keys."""
    value_heads: int
    """Heads of values; each key head serves as many of them."""
    key_dim: int
    """Values in a key head."""
    value_dim: int
    """Values in a value head."""
    kernel: int
    """Rows that the convolution sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsConfig:
    """Sizes of the mixture of experts."""

    count: int
    """Experts of a layer, the shared one not counted."""
    top_k: int
    """Experts that a row goes through."""
    inner: int
    """Inner width of an expert."""
    shared_inner: int
    """Inner width of the shared expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen35Config:
    """A Qwen3.5 decoder."""

    prefix: str
    """Of the text model's tensors."""
    hidden: int
    """Width of the residual stream."""
    layer_kinds: tuple[str, ...]
    """`linear_attention` or `full_attention`, by layer."""
    heads: int
    """Query heads of full attention."""
    kv_heads: int
    """Key and value heads of full attention."""
    head_dim: int
    """Values in a head of full attention."""
    rotary: int
    """Values of a head that turn."""
    rope: Rope
    """How they turn."""
    delta: DeltaConfig
    """The other layers."""
    feed_forward: int
    """Inner width of the feed-forward part; of an expert if there are experts."""
    experts: ExpertsConfig | None
    """The mixture of experts; None for dense models."""
    vocabulary: int
    """Rows of the embedding."""
    context: int
    """Most positions."""
    epsilon: float
    """Of the norms."""
    is_tied: bool
    """Whether the head is the embedding."""


def read_qwen3_5_config(checkpoint: Checkpoint) -> Qwen35Config:
    """Raises: CheckpointError naming the field that is missing, wrong or not supported."""
    whole = Fields(checkpoint.config, source=str(checkpoint.folder / "config.json"))
    fields = whole.section("text_config") or whole
    activation = fields.text("hidden_act", "silu")
    if activation != "silu":
        raise CheckpointError(
            f"{fields.source}: field `hidden_act` is {activation!r}; expected silu"
        )
    heads = fields.integer("num_attention_heads", most=MOST_HEAD_VALUES)
    kv_heads = fields.integer("num_key_value_heads", most=MOST_HEAD_VALUES)
    head_dim = fields.integer("head_dim", 256, most=MOST_HEAD_VALUES)
    delta = DeltaConfig(
        key_heads=fields.integer("linear_num_key_heads", 16, most=MOST_HEAD_VALUES),
        value_heads=fields.integer("linear_num_value_heads", 32, most=MOST_HEAD_VALUES),
        key_dim=fields.integer("linear_key_head_dim", 128, most=MOST_HEAD_VALUES),
        value_dim=fields.integer("linear_value_head_dim", 128, most=MOST_HEAD_VALUES),
        kernel=fields.integer("linear_conv_kernel_dim", 4, least=2, most=MOST_KERNEL),
    )
    for many, few, what in (
        (heads, kv_heads, "key-value heads"),
        (delta.value_heads, delta.key_heads, "key heads of linear attention"),
    ):
        if many % few:
            raise CheckpointError(f"{fields.source}: {many} heads do not divide into {few} {what}")
    experts = _experts(fields) if whole.text("model_type") in MOE_MODEL_TYPES else None
    rotary = _rotary(fields, head_dim)
    prefixes = ("model.language_model.", "model.")
    found = [name for name in prefixes if f"{name}embed_tokens.weight" in checkpoint.tensors]
    return Qwen35Config(
        prefix=found[0] if found else prefixes[1],
        hidden=fields.integer("hidden_size", most=MOST_WIDTH),
        layer_kinds=_layer_kinds(fields),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rotary=rotary,
        rope=rope_from_config(fields, rotary=rotary),
        delta=delta,
        feed_forward=(
            experts.inner if experts else fields.integer("intermediate_size", most=MOST_WIDTH)
        ),
        experts=experts,
        vocabulary=fields.integer("vocab_size", most=MOST_WIDTH),
        context=fields.integer("max_position_embeddings"),
        epsilon=fields.number("rms_norm_eps", 1e-6),
        is_tied=fields.flag("tie_word_embeddings", whole.flag("tie_word_embeddings", False)),
    )


def _experts(fields: Fields) -> ExpertsConfig:
    for name, plain in (("mlp_only_layers", []), ("norm_topk_prob", True)):
        value = fields.values.get(name, plain)
        if value not in (None, plain):
            raise CheckpointError(
                f"{fields.source}: field `{name}` is {str(value)[:80]}; only {plain} is supported"
            )
    count = fields.integer("num_experts", 256, most=MOST_EXPERTS)
    return ExpertsConfig(
        count=count,
        top_k=fields.integer("num_experts_per_tok", 8, most=count),
        inner=fields.integer("moe_intermediate_size", 512, most=MOST_WIDTH),
        shared_inner=fields.integer("shared_expert_intermediate_size", 512, most=MOST_WIDTH),
    )


def _rotary(fields: Fields, head_dim: int) -> int:
    section = fields.section("rope_parameters")
    share = fields.number("partial_rotary_factor", 0.25)
    if section is not None:
        share = section.number("partial_rotary_factor", share)
    rotary = int(head_dim * share)
    if rotary < 2 or rotary % 2 or rotary > head_dim:
        raise CheckpointError(
            f"{fields.source}: field `partial_rotary_factor` is {share}, which turns {rotary} "
            f"values of a head of {head_dim}; expected an even number from 2 to {head_dim}"
        )
    return rotary


def _layer_kinds(fields: Fields) -> tuple[str, ...]:
    layers = fields.integer("num_hidden_layers", most=MOST_LAYERS)
    kinds = fields.values.get("layer_types")
    if kinds is None:
        every = fields.integer("full_attention_interval", 4)
        return tuple(LAYER_KINDS[(layer + 1) % every == 0] for layer in range(layers))
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise CheckpointError(
            f"{fields.source}: field `layer_types` is {str(kinds)[:80]}; expected a list of "
            f"{layers}, the number of layers"
        )
    for layer, kind in enumerate(kinds):
        if kind not in LAYER_KINDS:
            raise CheckpointError(
                f"{fields.source}: field `layer_types`, layer {layer}: {str(kind)[:80]!r}; "
                f"expected {' or '.join(LAYER_KINDS)}"
            )
    return tuple(kinds)
