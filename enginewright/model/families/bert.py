"""BERT-like encoders with a pooling head: learnt positions, post-norm layers, both-ways attention.

Source: `modeling_bert.py` of transformers; pooling and normalising as the sentence-transformers
folder says
(modules.json, 1_Pooling/config.json).
"""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.families.sentence_transformers import Pooling, read_pooling
from enginewright.model.graph import Dimensions, Graph
from enginewright.model.graph_builder import GraphBuilder
from enginewright.model.read_json import Fields
from enginewright.model.text import read_text

GELU_FORMS = {
    "gelu": "erf",
    "gelu_python": "erf",
    "gelu_new": "tanh",
    "gelu_pytorch_tanh": "tanh",
    "gelu_fast": "tanh",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """A BERT-like encoder."""

    hidden: int
    """Width."""
    layers: int
    """Layers."""
    heads: int
    """Attention heads."""
    feed_forward: int
    """Inner width."""
    vocabulary: int
    """Rows of the token table."""
    positions: int
    """Rows of the position table."""
    types: int
    """Rows of the type table."""
    epsilon: float
    """Of the norms."""
    gelu: str
    """`erf` or `tanh`."""
    prefix: str
    """In front of every tensor name."""


def bert_graph(checkpoint: Checkpoint) -> Graph:
    """Embeddings `[segments, hidden]` of a BERT-like encoder.

    Raises: CheckpointError if configuration and weights do not fit.
    """
    config = _read_config(checkpoint)
    pooling = read_pooling(checkpoint.folder, width=config.hidden, positions=config.positions)
    build = GraphBuilder(checkpoint)
    stream = _embeddings(build, config)
    for layer in range(config.layers):
        stream = _attention(build, config, layer, stream)
        stream = _feed_forward(build, config, layer, stream)
    output = _pool(build, config, pooling, stream)
    return build.finish(
        family="bert",
        kind="encoder",
        dimensions=Dimensions(
            hidden=config.hidden,
            layers=config.layers,
            heads=config.heads,
            kv_heads=config.heads,
            head_dim=config.hidden // config.heads,
            feed_forward=config.feed_forward,
            vocabulary=config.vocabulary,
            context=pooling.context,
        ),
        output=output,
        text=read_text(checkpoint, vocabulary=config.vocabulary),
    )


def _read_config(checkpoint: Checkpoint) -> BertConfig:
    fields = Fields(checkpoint.config, source=str(checkpoint.folder / "config.json"))
    activation = fields.text("hidden_act", "gelu")
    if activation not in GELU_FORMS:
        raise CheckpointError(
            f"{fields.source}: field `hidden_act` is {activation!r}; expected one of "
            f"{', '.join(GELU_FORMS)}"
        )
    position_kind = fields.text("position_embedding_type", "absolute")
    if position_kind != "absolute":
        raise CheckpointError(
            f"{fields.source}: field `position_embedding_type` is {position_kind!r}; expected "
            "absolute"
        )
    if fields.flag("is_decoder", False):
        raise CheckpointError(f"{fields.source}: BERT as a decoder is not supported")
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    if hidden % heads:
        raise CheckpointError(
            f"{fields.source}: hidden_size {hidden} does not divide into {heads} heads"
        )
    prefix = "" if "embeddings.word_embeddings.weight" in checkpoint.tensors else "bert."
    return BertConfig(
        hidden=hidden,
        layers=fields.integer("num_hidden_layers"),
        heads=heads,
        feed_forward=fields.integer("intermediate_size"),
        vocabulary=fields.integer("vocab_size"),
        positions=fields.integer("max_position_embeddings"),
        types=fields.integer("type_vocab_size", 2),
        epsilon=fields.number("layer_norm_eps", 1e-12),
        gelu=GELU_FORMS[activation],
        prefix=prefix,
    )


def _embeddings(build: GraphBuilder, config: BertConfig) -> str:
    base = f"{config.prefix}embeddings."
    weights = [
        build.weight(f"{base}word_embeddings.weight", (config.vocabulary, config.hidden)),
        build.weight(f"{base}position_embeddings.weight", (config.positions, config.hidden)),
        build.weight(f"{base}token_type_embeddings.weight", (config.types, config.hidden)),
    ]
    stream = build.add(
        "embed",
        "embed",
        [],
        width=config.hidden,
        weights=weights,
        attributes={"tables": ["token", "position", "type"], "position_offset": 0},
    )
    return _norm(build, config, "embed_norm", f"{base}LayerNorm", stream)


def _attention(build: GraphBuilder, config: BertConfig, layer: int, stream: str) -> str:
    prefix, hidden = f"L{layer}", config.hidden
    base = f"{config.prefix}encoder.layer.{layer}.attention."
    inputs = [
        _linear(build, f"{prefix}.{short}", f"{base}self.{name}", stream, hidden)
        for short, name in (("q", "query"), ("k", "key"), ("v", "value"))
    ]
    head_dim = hidden // config.heads
    a = build.add(
        f"{prefix}.attention",
        "self_attention",
        inputs,
        width=hidden,
        attributes={"heads": config.heads, "head_dim": head_dim, "scale": head_dim**-0.5},
    )
    o = _linear(build, f"{prefix}.o", f"{base}output.dense", a, hidden)
    total = build.add(f"{prefix}.add", "add", [stream, o], width=hidden)
    return _norm(build, config, f"{prefix}.norm", f"{base}output.LayerNorm", total)


def _feed_forward(build: GraphBuilder, config: BertConfig, layer: int, stream: str) -> str:
    prefix, base = f"L{layer}", f"{config.prefix}encoder.layer.{layer}."
    up = _linear(build, f"{prefix}.up", f"{base}intermediate.dense", stream, config.feed_forward)
    active = build.add(
        f"{prefix}.gelu", "gelu", [up], width=config.feed_forward, attributes={"form": config.gelu}
    )
    down = _linear(build, f"{prefix}.down", f"{base}output.dense", active, config.hidden)
    total = build.add(f"{prefix}.ffn_add", "add", [stream, down], width=config.hidden)
    return _norm(build, config, f"{prefix}.ffn_norm", f"{base}output.LayerNorm", total)


def _pool(build: GraphBuilder, config: BertConfig, pooling: Pooling, stream: str) -> str:
    output = build.add("pool", pooling.kind, [stream], width=config.hidden)
    if pooling.is_normalised:
        # The epsilon of torch.nn.functional.normalize.
        output = build.add(
            "normalise", "l2_norm", [output], width=config.hidden, attributes={"epsilon": 1e-12}
        )
    return output


def _linear(build: GraphBuilder, op_id: str, name: str, x: str, made: int) -> str:
    weights = [build.weight(f"{name}.weight", (made, build.width(x)))]
    weights += build.optional_weight(f"{name}.bias", (made,))
    return build.add(op_id, "linear", [x], width=made, weights=weights)


def _norm(build: GraphBuilder, config: BertConfig, op_id: str, name: str, x: str) -> str:
    weights = [build.weight(f"{name}.{part}", (config.hidden,)) for part in ("weight", "bias")]
    return build.add(
        op_id,
        "layer_norm",
        [x],
        width=config.hidden,
        weights=weights,
        attributes={"epsilon": config.epsilon},
    )
