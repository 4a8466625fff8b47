"""Whether the naive engine computes what the model's original implementation does."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from enginewright.errors import EngineError, UsageError
from enginewright.model import Checkpoint, Golden, Graph, compare, execute, find_golden
from enginewright.model.golden import EncoderComparison
from enginewright.swarm.run_folder import disk_errors
from enginewright.swarm.workbench import Finding

MOST_LOGIT_ERROR = 0.01
"""Largest difference of a logit. Float32 in another order gives about 1e-4 on the models
recorded."""
MOST_LEAD = 0.01
"""Largest lead, in the oracle's logits, of its token over one that the engine prefers."""
LEAST_COSINE = 0.99999
"""Smallest cosine of an embedding with the oracle's."""
EVALUATE_SECONDS = 600.0
"""Time that the naive engine may take for all recorded texts."""
SHORT_TOKENS = 12
"""Length of the sequence that is compared with NumPy when nothing is recorded."""

Floats = npt.NDArray[np.float32]


def check_against_oracle(
    program: Path, engine: Path, graph: Graph, checkpoint: Checkpoint
) -> Finding:
    """Compare the engine with the recorded answers of the original implementation; if there are
    none
    for these weights, with the NumPy semantics of the graph on one short sequence, and say so.

    Raises: MachineError if the disk refuses.
    """
    golden = find_golden(checkpoint.sha256())
    try:
        if golden is None:
            return _against_numpy(program, engine, graph, checkpoint)
        outputs = run_sequences(program, engine, checkpoint.folder, golden.sequences)
        return _against_golden(golden, outputs)
    except (EngineError, UsageError) as error:
        return _finding(False, f"the naive engine failed: {error.message}", {"error": str(error)})


def _against_golden(golden: Golden, outputs: list[Floats]) -> Finding:
    found = compare(golden, outputs)
    evidence = {"oracle": golden.name, "source": golden.source, **asdict(found)}
    if isinstance(found, EncoderComparison):
        return _finding(
            found.min_cosine >= LEAST_COSINE,
            f"cosine {found.min_cosine:.8f} with {golden.source} on {found.embeddings} texts",
            evidence,
        )
    return _finding(
        found.max_logit_error <= MOST_LOGIT_ERROR and found.worst_disagreement <= MOST_LEAD,
        f"logits within {found.max_logit_error:.1e} of {golden.source} at {found.positions} "
        f"positions, {found.top1_agreement:.1%} of tokens the same",
        evidence,
    )


def _against_numpy(program: Path, engine: Path, graph: Graph, checkpoint: Checkpoint) -> Finding:
    dimensions = graph.dimensions
    # Spread over the vocabulary: no text is needed, and special tokens at both ends are rare.
    length = min(SHORT_TOKENS, dimensions.context)
    sequence = [(7919 * (place + 1)) % dimensions.vocabulary for place in range(length)]
    (ours,) = run_sequences(program, engine, checkpoint.folder, [sequence])
    (meant,) = execute(graph, checkpoint, [sequence])
    error = float(np.abs(ours - meant).max()) if ours.shape == meant.shape else float("inf")
    largest = float(np.abs(meant).max())
    return _finding(
        np.isfinite(error) and error <= MOST_LOGIT_ERROR * max(1.0, largest / 10),
        f"nothing is recorded of the original implementation for these weights; within {error:.1e} "
        f"of this project's NumPy semantics on {length} tokens",
        {"oracle": None, "source": "NumPy semantics of the graph", "max_error": error},
    )


def run_sequences(
    program: Path,
    engine: Path,
    checkpoint: Path,
    sequences: list[list[int]],
    *,
    flags: tuple[str, ...] = (),
) -> list[Floats]:
    """What an engine answers to whole sequences: logits `[T, vocabulary]` or an embedding each.
    `flags` are further ones of `evaluate`.

    Raises: EngineError if it fails; MachineError if the disk refuses.
    """
    with disk_errors(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory() as scratch:
        asked, answered = Path(scratch) / "in.json", Path(scratch) / "out.safetensors"
        asked.write_text(json.dumps({"sequences": sequences}))
        command: list[Any] = [program, "evaluate", "--engine", engine, "--checkpoint", checkpoint]
        try:
            done = subprocess.run(
                [*command, "--input", asked, "--output", answered, *flags],
                capture_output=True,
                text=True,
                timeout=EVALUATE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"{engine}: no answer within {EVALUATE_SECONDS:.0f} s") from error
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise EngineError(
                f"{engine}: `evaluate` ended with {done.returncode}: {said[-1] if said else ''}"
            )
        held = load_file(answered)
        return [held[str(number)] for number in range(len(sequences))]


def _finding(holds: Any, said: str, evidence: dict[str, Any]) -> Finding:
    return Finding(
        kind="kept" if holds else "rejected", headline=said, evidence=evidence, speedup=None
    )
