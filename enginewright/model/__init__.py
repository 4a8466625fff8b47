"""Checkpoints, model graphs, what every op means, and the recorded oracle."""

from enginewright.model.checkpoint import Checkpoint, Tensor
from enginewright.model.engine_inputs import write_engine_inputs
from enginewright.model.families import build_graph
from enginewright.model.graph import Graph, Op
from enginewright.model.read_checkpoint import read_checkpoint, resolve_checkpoint
from enginewright.model.tokenizer import load_tokenizer, read_tokenizer, write_tokenizer

__all__ = [
    "Checkpoint",
    "Graph",
    "Op",
    "Tensor",
    "build_graph",
    "load_tokenizer",
    "read_checkpoint",
    "read_tokenizer",
    "resolve_checkpoint",
    "write_engine_inputs",
    "write_tokenizer",
]
