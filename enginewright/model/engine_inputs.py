"""The two files that the model room puts into an engine folder."""

from __future__ import annotations

import errno
from pathlib import Path

from enginewright.errors import MachineError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.graph import Graph
from enginewright.model.tokenizer import TOKENIZER_FILE, read_tokenizer, write_atomically

GRAPH_FILE = "graph.json"


def write_engine_inputs(graph: Graph, checkpoint: Checkpoint, folder: Path) -> None:
    """Write graph.json and tokenizer.json into `folder` (made if missing), each atomically.

    Raises: CheckpointError if the tokenizer is missing or does not fit; MachineError if the disk
    refuses.
    """
    tokenizer = read_tokenizer(checkpoint, vocabulary=graph.dimensions.vocabulary)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / TOKENIZER_FILE, tokenizer.to_str())
        write_atomically(folder / GRAPH_FILE, graph.to_json())
    except OSError as error:
        hint = (
            "free some space"
            if error.errno == errno.ENOSPC
            else "check that the folder can be written"
        )
        raise MachineError(f"{folder}: cannot be written: {error}", hint=hint) from error
