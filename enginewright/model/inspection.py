"""What `enginewright inspect` tells of a checkpoint."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from enginewright.model.checkpoint import Checkpoint
from enginewright.model.cost import decode_shape, prompt_shape, step_cost
from enginewright.model.families import build_graph
from enginewright.model.golden import find_golden
from enginewright.model.graph import Dimensions, Graph, GraphFile
from enginewright.model.read_checkpoint import read_checkpoint
from enginewright.model.tokenizer import read_tokenizer

_CONTEXTS = (64, 1024)


class StepBytes(BaseModel):
    """What one step must move and compute."""

    model_config = ConfigDict(frozen=True)

    step: str
    """`decode` (one token) or `encode` (one text)."""
    context: int
    """Tokens of the sequence."""
    bytes: int
    """Bytes from memory: weights once, keys and values once."""
    flops: int
    """Floating-point operations."""
    floor_seconds: float | None
    """Least time at the bandwidth given; None without one."""


class Inspection(BaseModel):
    """A checkpoint at a glance."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Name of the checkpoint."""
    format: str
    """`gguf` or `safetensors`."""
    family: str
    """Model family."""
    kind: str
    """`decoder` or `encoder`."""
    dimensions: Dimensions
    """Sizes."""
    files: list[GraphFile]
    """Weights files with their digests."""
    parameters: int
    """Values of the weights that the graph uses."""
    bytes_by_dtype: dict[str, int]
    """Stored bytes of those weights."""
    unused_tensors: list[str]
    """Tensors of the files that no op reads."""
    ops: dict[str, int]
    """How many ops of each kind."""
    tokens: int
    """Tokens that the tokenizer knows."""
    has_chat_template: bool
    """Whether chats can be rendered."""
    has_golden: bool
    """Whether answers of the original implementation are recorded for these weights."""
    graph_sha256: str
    """Digest of graph.json."""
    steps: list[StepBytes]
    """Costs at typical sizes."""


def inspect_checkpoint(
    spec: str | Path, *, sha256: str | None = None, bytes_per_second: float | None = None
) -> tuple[Inspection, Graph, Checkpoint]:
    """Read a checkpoint in whole: tables, tokenizer, graph, and a scan of the weights for NaN.

    `sha256` is the expected digest or its first digits; `bytes_per_second` is this machine's read
    bandwidth.

    Raises: CheckpointError if anything is missing, damaged or unknown.
    """
    checkpoint = read_checkpoint(spec, sha256=sha256)
    graph = build_graph(checkpoint)
    tokenizer = read_tokenizer(checkpoint, vocabulary=graph.dimensions.vocabulary)
    checkpoint.scan_for_bad_values()
    bytes_by_dtype: Counter[str] = Counter()
    for weight in graph.weights.values():
        bytes_by_dtype[weight.dtype] += weight.bytes
    inspection = Inspection(
        name=graph.name,
        format=checkpoint.format,
        family=graph.family,
        kind=graph.kind,
        dimensions=graph.dimensions,
        files=graph.files,
        parameters=sum(prod(weight.shape) for weight in graph.weights.values()),
        bytes_by_dtype=dict(bytes_by_dtype.most_common()),
        unused_tensors=sorted(checkpoint.tensors.keys() - graph.weights.keys()),
        ops=dict(Counter(op.kind for op in graph.ops)),
        tokens=tokenizer.get_vocab_size(with_added_tokens=True),
        has_chat_template=graph.text.chat_template is not None,
        has_golden=find_golden(checkpoint.sha256()) is not None,
        graph_sha256=graph.sha256,
        steps=_steps(graph, bytes_per_second),
    )
    return inspection, graph, checkpoint


def _steps(graph: Graph, bytes_per_second: float | None) -> list[StepBytes]:
    steps = []
    for context in sorted({min(context, graph.dimensions.context) for context in _CONTEXTS}):
        is_decoder = graph.kind == "decoder"
        shape = decode_shape(context) if is_decoder else prompt_shape(context)
        cost = step_cost(graph, shape)
        floor = None
        if bytes_per_second is not None:
            floor = cost.floor_seconds(bytes_per_second=bytes_per_second)
        steps.append(
            StepBytes(
                step="decode" if is_decoder else "encode",
                context=context,
                bytes=cost.bytes,
                flops=cost.flops,
                floor_seconds=floor,
            )
        )
    return steps
