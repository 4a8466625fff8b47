"""The model in NumPy, op by op: slow, plain, and what every kernel is checked against."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from enginewright.errors import UsageError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.graph import Graph
from enginewright.model.op_table import RECURRENT, state_shape
from enginewright.model.ops import OPS, Cache, Floats, Step, whole_sequences


class Weights:
    """Weights and constants of a graph as float32: dequantised when first asked for, then kept."""

    def __init__(self, graph: Graph, checkpoint: Checkpoint) -> None:
        self.graph = graph
        self.checkpoint = checkpoint
        self._held: dict[str, Floats] = {}

    def get(self, name: str) -> Floats:
        """The values of the weight or constant `name`, in its shape."""
        if name not in self._held:
            if name in self.graph.constants:
                self._held[name] = self.graph.constants[name].array()
            else:
                self._held[name] = self.checkpoint.dequantise(self.checkpoint.tensor(name))
        return self._held[name]


def empty_caches(graph: Graph, *, slots: int, capacity: int) -> dict[int, Cache]:
    """A cache of zeros for each layer that the graph writes, `[slots, capacity, kv_heads,
    head_dim]`."""
    caches = {}
    for op in graph.ops:
        if op.kind == "kv_write":
            shape = (slots, capacity, op.integer("kv_heads"), op.integer("head_dim"))
            caches[op.integer("layer")] = Cache(
                keys=np.zeros(shape, np.float32), values=np.zeros(shape, np.float32)
            )
    return caches


def empty_states(graph: Graph, *, slots: int) -> dict[str, Floats]:
    """A state of zeros for each recurrent op, `[slots, …]`."""
    return {
        op.id: np.zeros((slots, *state_shape(op, graph.buffers[op.inputs[0]].width)), np.float32)
        for op in graph.ops
        if op.kind in RECURRENT
    }


def run_step(
    graph: Graph, weights: Weights, step: Step, *, keep: Collection[str] | None = None
) -> dict[str, Floats]:
    """Run every op of the graph on `step` and give the buffers named in `keep` (None: all) by name.

    Buffers are `[tokens | selected | segments, width]`; the step's caches and states are written.
    """
    wanted = set(graph.buffers) if keep is None else set(keep)
    last_use = {name: number for number, op in enumerate(graph.ops) for name in op.inputs}
    buffers: dict[str, Floats] = {}
    for number, op in enumerate(graph.ops):
        results = OPS[op.kind](
            op,
            [buffers[name] for name in op.inputs],
            [weights.get(name) for name in op.weights],
            step,
        )
        buffers.update(zip(op.outputs, results, strict=True))
        for name in op.inputs:
            if name not in wanted and last_use[name] == number:
                buffers.pop(name, None)
    return {name: buffers[name] for name in wanted}


def whole_step(graph: Graph, sequences: list[list[int]]) -> Step:
    """A step of whole sequences with the caches that the graph needs.

    Raises: UsageError for no sequence, an empty one, one beyond the context, or a token that the
    model lacks.
    """
    dimensions = graph.dimensions
    if not sequences:
        raise UsageError("no sequences were given")
    for number, sequence in enumerate(sequences):
        if not 0 < len(sequence) <= dimensions.context:
            raise UsageError(
                f"sequence {number} has {len(sequence)} tokens; expected 1 to {dimensions.context}"
            )
        if not all(0 <= token < dimensions.vocabulary for token in sequence):
            raise UsageError(
                f"sequence {number} has a token outside the vocabulary of {dimensions.vocabulary}"
            )
    step = whole_sequences(sequences)
    longest = max(len(sequence) for sequence in sequences)
    step.caches.update(empty_caches(graph, slots=len(sequences), capacity=longest))
    step.states.update(empty_states(graph, slots=len(sequences)))
    return step


def execute(
    graph: Graph,
    checkpoint: Checkpoint,
    sequences: list[list[int]],
    *,
    weights: Weights | None = None,
) -> list[Floats]:
    """What the model answers to whole sequences: logits of every position `[T, vocabulary]`, or
    embeddings `[width]`.

    `weights` keeps dequantised weights between calls.

    Raises: UsageError as `whole_step`.
    """
    step = whole_step(graph, sequences)
    held = weights or Weights(graph, checkpoint)
    output = run_step(graph, held, step, keep=[graph.output])[graph.output]
    if graph.kind == "encoder":
        return list(output)
    return [output[rows] for rows in step.segments]


def trace(
    graph: Graph, checkpoint: Checkpoint, sequences: list[list[int]]
) -> tuple[Step, dict[str, Floats]]:
    """Every buffer of a run over whole sequences, and the step (its caches written).

    Raises: UsageError as `whole_step`.
    """
    step = whole_step(graph, sequences)
    return step, run_step(graph, Weights(graph, checkpoint), step)
