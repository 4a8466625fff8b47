"""Whole sequences through an engine's `evaluate`: logits or embeddings, without a server."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from enginewright.errors import EngineError, MachineError
from enginewright.evaluation.sandbox import Policy, Sandbox

EVALUATE_SECONDS = 600.0
"""Longest time of one call."""
MOST_ANSWER_BYTES = 4 << 30

Floats = npt.NDArray[np.float32]


def run_sequences(
    program: Path,
    engine: Path,
    checkpoint: Path,
    sequences: Sequence[Sequence[int]],
    *,
    wanted_from: Sequence[int] | None = None,
    threads: int | None = None,
    sandbox: Sandbox | None = None,
    seconds: float = EVALUATE_SECONDS,
    flags: tuple[str, ...] = (),
) -> list[Floats]:
    """What an engine answers: logits `[T - from, vocabulary]` of each sequence, or an embedding.

    `wanted_from`: first position of each sequence whose logits are wanted; all when None.
    `flags` are further ones of `evaluate`.

    Raises: EngineError if it fails, takes longer than `seconds` or answers nonsense; MachineError
    if the disk refuses.
    """
    asked: dict[str, Any] = {"sequences": [list(ids) for ids in sequences]}
    if wanted_from is not None:
        asked["from"] = list(wanted_from)
    with tempfile.TemporaryDirectory(prefix="enginewright-sequences-") as scratch:
        given, out = Path(scratch) / "in.json", Path(scratch) / "out"
        answered = out / "answer.safetensors"
        try:
            out.mkdir()
            given.write_text(json.dumps(asked))
        except OSError as error:
            raise MachineError(f"{scratch}: {error.strerror}", hint="free some disk") from error
        command: tuple[str, ...] = (
            *(str(program), "evaluate", "--engine", str(engine), "--checkpoint", str(checkpoint)),
            *("--input", str(given), "--output", str(answered)),
            *(() if threads is None else ("--threads", str(threads))),
            *flags,
        )
        if sandbox is not None:
            policy = Policy(
                read_only=(program, engine, checkpoint, given),
                writable=(out,),
                environment={"PATH": os.environ.get("PATH", os.defpath)},
                file_bytes=MOST_ANSWER_BYTES,
            )
            command = sandbox.command(policy, command)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"{engine}: no answer within {seconds:.0f} s") from error
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise EngineError(
                f"{engine}: `evaluate` ended with {done.returncode}: {said[-1] if said else ''}"
            )
        try:
            held = load_file(answered)
            return [held[str(number)] for number in range(len(sequences))]
        except (OSError, KeyError, ValueError) as error:
            raise EngineError(f"{engine}: its answer cannot be read: {error!r}") from error
