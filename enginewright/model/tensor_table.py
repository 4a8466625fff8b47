"""Checks that every tensor table must pass, whatever the format."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from math import prod
from pathlib import Path

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Tensor
from enginewright.model.dtypes import SUPPORTED

MOST_DIMENSIONS = 8
MOST_VALUES = 1 << 48


def check_tensor(path: Path, tensor: Tensor, *, data_start: int, file_bytes: int) -> None:
    """Check one entry against its file: shape, size, and that its bytes lie behind the header and
    inside the file.

    Raises: CheckpointError.
    """
    where = f"{path}: tensor `{tensor.name}`"
    if not tensor.name:
        raise CheckpointError(f"{path}: a tensor has an empty name")
    if len(tensor.shape) > MOST_DIMENSIONS:
        raise CheckpointError(
            f"{where} has {len(tensor.shape)} dimensions; at most {MOST_DIMENSIONS} are allowed"
        )
    values = prod(tensor.shape)
    if any(size <= 0 for size in tensor.shape) or values > MOST_VALUES:
        raise CheckpointError(
            f"{where} has shape {list(tensor.shape)}; every size must be positive and the product "
            f"at most {MOST_VALUES}"
        )
    if tensor.dtype in SUPPORTED:
        stored = SUPPORTED[tensor.dtype]
        if stored.block_values > 1 and (not tensor.shape or tensor.shape[-1] % stored.block_values):
            raise CheckpointError(
                f"{where} has shape {list(tensor.shape)}; rows of {tensor.dtype} are whole blocks "
                "of "
                f"{stored.block_values} values"
            )
        expected = stored.size_bytes(values)
        if tensor.bytes != expected:
            raise CheckpointError(
                f"{where} has {tensor.bytes} bytes, but shape {list(tensor.shape)} of "
                f"{tensor.dtype} takes {expected}"
            )
    if tensor.offset < data_start or tensor.offset + tensor.bytes > file_bytes:
        raise CheckpointError(
            f"{where} lies at bytes {tensor.offset}..{tensor.offset + tensor.bytes}; the data of "
            "this file are at "
            f"{data_start}..{file_bytes}",
            hint="the file is truncated or damaged; fetch it again",
        )


def check_no_overlap(path: Path, tensors: Iterable[Tensor]) -> None:
    """Check that no two tensors of one file share bytes.

    Raises: CheckpointError naming both.
    """
    ordered = sorted(tensors, key=lambda tensor: (tensor.offset, tensor.bytes))
    for first, second in itertools.pairwise(ordered):
        if first.offset + first.bytes > second.offset:
            raise CheckpointError(
                f"{path}: tensors `{first.name}` and `{second.name}` overlap: "
                f"{first.offset}..{first.offset + first.bytes} and "
                f"{second.offset}..{second.offset + second.bytes}",
                hint="the file is damaged; fetch it again",
            )
