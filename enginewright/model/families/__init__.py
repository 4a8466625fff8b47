"""Model families: from a checkpoint's configuration to a graph. One file each; the registry is
below."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.families.bert import bert_graph
from enginewright.model.families.llama import llama_graph
from enginewright.model.families.llama_config import CONFIG_MODEL_TYPES, GGUF_ARCHITECTURES
from enginewright.model.families.qwen3_5 import qwen3_5_graph
from enginewright.model.families.qwen3_5_config import QWEN3_5_MODEL_TYPES
from enginewright.model.graph import Graph

Family = Callable[[Checkpoint], Graph]

GGUF_FAMILIES: dict[str, Family] = dict.fromkeys(GGUF_ARCHITECTURES, llama_graph)
"""By `general.architecture`."""

CONFIG_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(CONFIG_MODEL_TYPES, llama_graph),
    **dict.fromkeys(QWEN3_5_MODEL_TYPES, qwen3_5_graph),
    "bert": bert_graph,
}
"""By `model_type` of config.json."""


def build_graph(checkpoint: Checkpoint) -> Graph:
    """The verified graph of a checkpoint.

    Raises: CheckpointError if the architecture is unknown, or configuration and weights do not fit.
    """
    field = "general.architecture" if checkpoint.format == "gguf" else "model_type"
    known = GGUF_FAMILIES if checkpoint.format == "gguf" else CONFIG_FAMILIES
    architecture = checkpoint.config.get(field)
    if not isinstance(architecture, str):
        raise CheckpointError(
            f"{checkpoint.described_as}: field `{field}` is {architecture!r}; expected one of "
            f"{', '.join(sorted(known))}",
            hint="the configuration must say what the model is",
        )
    family = known.get(architecture)
    if family is None:
        near = get_close_matches(architecture, known, n=1)
        suggestion = f" (nearest: {near[0]})" if near else ""
        raise CheckpointError(
            f"{checkpoint.described_as}: architecture `{architecture}` is not known{suggestion}",
            hint=f"known: {', '.join(sorted(known))}; docs/adding-a-model.md says how to add one",
        )
    return family(checkpoint)
