"""tokenizer.json for any checkpoint: copied, or built from GGUF metadata.

`encode(text, add_special_tokens=True)` of what is written gives the ids that the model was
trained on, bos or [CLS] … [SEP] included. Chat prompts are encoded with `add_special_tokens=False`:
templates spell them out.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.tokenizer_from_gguf import tokenizer_from_gguf

TOKENIZER_FILE = "tokenizer.json"


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a tokenizer.json, without truncation or padding.

    Raises: CheckpointError if it is missing or the library refuses it.
    """
    if not path.is_file():
        raise CheckpointError(
            f"{path}: the tokenizer is missing",
            hint="fetch tokenizer.json with the weights; convert slow-only tokenizers first",
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises bare Exception for anything it cannot read.
        raise CheckpointError(f"{path}: the tokenizers library refuses it: {error}") from error
    # Limits belong to the engine; published files often carry those of a training script.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_tokenizer(checkpoint: Checkpoint, *, vocabulary: int) -> Tokenizer:
    """The checkpoint's tokenizer; `vocabulary` is the number of rows of its embedding.

    Raises: CheckpointError if it is missing, unknown, or has ids that the embedding lacks.
    """
    if checkpoint.format == "gguf":
        tokenizer = tokenizer_from_gguf(checkpoint)
    else:
        tokenizer = load_tokenizer(checkpoint.folder / TOKENIZER_FILE)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest < 0:
        raise CheckpointError(f"{checkpoint.described_as}: the tokenizer has no tokens")
    if largest >= vocabulary:
        raise CheckpointError(
            f"{checkpoint.described_as}: the tokenizer has ids up to {largest}, but the embedding "
            f"has {vocabulary} "
            "rows",
            hint="tokenizer and weights belong to different models",
        )
    return tokenizer


def write_tokenizer(checkpoint: Checkpoint, path: Path, *, vocabulary: int) -> None:
    """Write the checkpoint's tokenizer.json to `path`, atomically.

    Raises: CheckpointError as `read_tokenizer`.
    """
    write_atomically(path, read_tokenizer(checkpoint, vocabulary=vocabulary).to_str())


def write_atomically(path: Path, text: str) -> None:
    """Write `text` so that `path` has the old bytes or the new ones, never a part.

    Raises: OSError (no space, no permission); nothing is left behind then.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
