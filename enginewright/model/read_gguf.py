"""GGUF v3 files, through the `gguf` package."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint, CheckpointFile, Tensor
from enginewright.model.dtypes import SUPPORTED
from enginewright.model.gguf_extents import check_extents
from enginewright.model.tensor_table import check_no_overlap, check_tensor

VERSION = 3
_HEADER = struct.Struct("<4sIQQ")
_LEAST_TENSOR_BYTES = 24
_LEAST_FIELD_BYTES = 13
_BY_NUMBER = {stored.gguf_type: name for name, stored in SUPPORTED.items()}


def read_gguf(path: Path) -> Checkpoint:
    """Read the metadata and the tensor table of one GGUF file; the weights stay on disk.

    Raises: CheckpointError if the file is truncated, damaged, or not GGUF version 3.
    """
    file_bytes = _check_header(path)
    check_extents(path)
    try:
        reader = gguf.GGUFReader(path)
        config = {
            name: _contents(name, field)
            for name, field in reader.fields.items()
            if not name.startswith("GGUF.")
        }
        tensors = [_tensor(entry) for entry in reader.tensors]
    except CheckpointError:
        raise
    except Exception as error:
        # The package reports damage through whatever breaks first (IndexError, ValueError,
        # KeyError, …); all of it
        # means the same to a user.
        raise CheckpointError(
            f"{path}: the GGUF header cannot be read: {type(error).__name__}: {error}",
            hint="the file is truncated or damaged; fetch it again",
        ) from error
    if config.get("split.count", 1) not in (0, 1):
        raise CheckpointError(
            f"{path}: is one of {config['split.count']} parts; files in one part are supported",
            hint="join the parts with `llama-gguf-split --merge`",
        )
    if not tensors:
        raise CheckpointError(
            f"{path}: the file holds no tensors", hint="vocabulary-only files cannot be served"
        )
    for tensor in tensors:
        check_tensor(path, tensor, data_start=reader.data_offset, file_bytes=file_bytes)
    check_no_overlap(path, tensors)
    return Checkpoint(
        name=path.stem,
        format="gguf",
        folder=path.parent,
        files=(CheckpointFile(path=path.name, bytes=file_bytes),),
        tensors={tensor.name: tensor for tensor in tensors},
        config=config,
    )


def _check_header(path: Path) -> int:
    """Check magic, version and that the counts can be true; give the file's size. The package
    trusts all of these."""
    try:
        file_bytes = path.stat().st_size
        with path.open("rb") as handle:
            start = handle.read(_HEADER.size)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    if not start:
        raise CheckpointError(f"{path}: the file is empty", hint="fetch it again")
    if start[:4] != b"GGUF":
        raise CheckpointError(
            f"{path}: the file starts with {start[:4]!r}; a GGUF file starts with b'GGUF'",
            hint="check that this is a GGUF file; old GGML files must be converted",
        )
    if len(start) < _HEADER.size:
        raise CheckpointError(
            f"{path}: the file ends inside the header ({len(start)} bytes)",
            hint="the file is truncated; fetch it again",
        )
    _, version, tensor_count, field_count = _HEADER.unpack(start)
    if version != VERSION:
        raise CheckpointError(
            f"{path}: GGUF version {version}; version {VERSION} (little-endian) is supported",
            hint="convert the checkpoint again with a current converter",
        )
    if tensor_count * _LEAST_TENSOR_BYTES + field_count * _LEAST_FIELD_BYTES > file_bytes:
        raise CheckpointError(
            f"{path}: the header claims {tensor_count} tensors and {field_count} fields, more than "
            f"{file_bytes} bytes can hold",
            hint="the file is truncated or damaged; fetch it again",
        )
    return file_bytes


def _contents(name: str, field: gguf.ReaderField) -> Any:
    value = field.contents()
    if field.types == [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.STRING]:
        # contents() decodes one string at a time through NumPy scalars; this is the same, four
        # times as fast.
        return [bytes(field.parts[index]).decode("utf-8") for index in field.data]
    return value


def _tensor(entry: gguf.ReaderTensor) -> Tensor:
    return Tensor(
        name=entry.name,
        file=0,
        offset=int(entry.data_offset),
        bytes=int(entry.n_bytes),
        dtype=_BY_NUMBER.get(entry.tensor_type, entry.tensor_type.name.lower()),
        shape=tuple(int(size) for size in reversed(entry.shape.tolist())),
    )
