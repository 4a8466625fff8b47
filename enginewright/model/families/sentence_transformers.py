"""What a sentence-transformers folder adds to an encoder: pooling, normalising, the longest
sequence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.errors import CheckpointError
from enginewright.model.read_json import Fields, read_json_object

SUPPORTED_MODES = {"pooling_mode_mean_tokens": "mean_pool", "pooling_mode_cls_token": "first_pool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """How a sequence becomes one embedding."""

    kind: str
    """`mean_pool` or `first_pool`: the op."""
    is_normalised: bool
    """Whether the embedding has length 1."""
    context: int
    """Most tokens of a sequence."""


def read_pooling(folder: Path, *, width: int, positions: int) -> Pooling:
    """Pooling of the model in `folder`; without modules.json the mean of the tokens, not
    normalised.

    `width` is the encoder's width, `positions` its longest sequence.

    Raises: CheckpointError for modules or modes that no engine has.
    """
    context = positions
    limits = folder / "sentence_bert_config.json"
    if limits.is_file():
        fields = Fields(read_json_object(limits), source=str(limits))
        context = min(fields.integer("max_seq_length", positions), positions)
    modules = folder / "modules.json"
    if not modules.is_file():
        return Pooling(kind="mean_pool", is_normalised=False, context=context)
    kind, is_normalised = None, False
    for number, module in enumerate(_read_modules(modules)):
        name = str(module.get("type", "")).rsplit(".", 1)[-1]
        if name == "Transformer" and number == 0:
            continue
        if name == "Pooling" and kind is None:
            kind = _read_mode(folder / _inner(modules, module) / "config.json", width)
        elif name == "Normalize" and kind is not None:
            is_normalised = True
        else:
            raise CheckpointError(
                f"{modules}: module {number} is `{module.get('type')}`; expected Transformer, "
                "Pooling and, if any, "
                "Normalize, in this order"
            )
    if kind is None:
        raise CheckpointError(f"{modules}: names no Pooling module")
    return Pooling(kind=kind, is_normalised=is_normalised, context=context)


def _read_modules(path: Path) -> list[dict[str, Any]]:
    try:
        modules = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON: {error}") from error
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{path}: expected a list of objects")
    return modules


def _inner(modules: Path, module: dict[str, Any]) -> str:
    path = module.get("path")
    if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts:
        raise CheckpointError(
            f"{modules}: field `path` is {path!r}; expected a folder inside this one"
        )
    return path


def _read_mode(path: Path, width: int) -> str:
    fields = Fields(read_json_object(path), source=str(path))
    if fields.integer("word_embedding_dimension", width) != width:
        raise CheckpointError(
            f"{path}: field `word_embedding_dimension` is "
            f"{fields.integer('word_embedding_dimension')}; "
            f"the encoder is {width} wide"
        )
    modes = [
        name for name in fields.values if name.startswith("pooling_mode_") and fields.flag(name)
    ]
    if len(modes) != 1 or modes[0] not in SUPPORTED_MODES:
        raise CheckpointError(
            f"{path}: pooling modes {modes}; expected exactly one of {', '.join(SUPPORTED_MODES)}"
        )
    return SUPPORTED_MODES[modes[0]]
