"""Checkpoints, model graphs, what every op means, and the recorded oracle."""

from enginewright.model.checkpoint import Checkpoint, Tensor
from enginewright.model.cost import StepCost, StepShape, decode_shape, prompt_shape, step_cost
from enginewright.model.engine_inputs import write_engine_inputs
from enginewright.model.families import build_graph
from enginewright.model.golden import Golden, compare, find_golden
from enginewright.model.graph import Graph, Op
from enginewright.model.inspection import Inspection, inspect_checkpoint
from enginewright.model.read_checkpoint import read_checkpoint, resolve_checkpoint
from enginewright.model.reference import Weights, execute, run_step, trace
from enginewright.model.tokenizer import load_tokenizer, read_tokenizer, write_tokenizer

__all__ = [
    "Checkpoint",
    "Golden",
    "Graph",
    "Inspection",
    "Op",
    "StepCost",
    "StepShape",
    "Tensor",
    "Weights",
    "build_graph",
    "compare",
    "decode_shape",
    "execute",
    "find_golden",
    "inspect_checkpoint",
    "load_tokenizer",
    "prompt_shape",
    "read_checkpoint",
    "read_tokenizer",
    "resolve_checkpoint",
    "run_step",
    "step_cost",
    "trace",
    "write_engine_inputs",
    "write_tokenizer",
]
