"""safetensors folders: one file, or shards named by an index.

The `safetensors` library does not tell where a tensor lies, and a host that maps the file must
know. So the header is
read here (a length and a JSON object), and what it says is compared with what the library says.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Never, TypeGuard

from safetensors import SafetensorError, safe_open

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint, CheckpointFile, Tensor
from enginewright.model.dtypes import SAFETENSORS_NAMES, SAFETENSORS_VALUE_BITS
from enginewright.model.read_json import read_json_object
from enginewright.model.tensor_table import check_no_overlap, check_tensor

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_MEANINGLESS_NAMES = ("model", "models", "weights", "checkpoint")
MOST_HEADER_BYTES = 100_000_000
"""The library's own limit."""


def read_safetensors(folder: Path, *, only: str | None = None) -> Checkpoint:
    """Read config.json and the tensor tables of a folder; the weights stay on disk.

    `only` names the one file that holds the weights; else model.safetensors or the index does.

    Raises: CheckpointError if a file is missing, truncated or damaged.
    """
    paths = _weight_files(folder) if only is None else [only]
    config = read_json_object(
        folder / "config.json",
        hint="a safetensors folder needs the config.json it was published with",
    )
    tensors: dict[str, Tensor] = {}
    for number, name in enumerate(paths):
        for tensor in read_table(folder / name, file=number):
            if tensor.name in tensors:
                raise CheckpointError(
                    f"{folder}: tensor `{tensor.name}` is in both "
                    f"{paths[tensors[tensor.name].file]} and {name}"
                )
            tensors[tensor.name] = tensor
    if only is None:
        _check_index(folder, paths, tensors)
    return Checkpoint(
        name=_folder_name(folder),
        format="safetensors",
        folder=folder,
        files=tuple(
            CheckpointFile(path=name, bytes=(folder / name).stat().st_size) for name in paths
        ),
        tensors=tensors,
        config=config,
    )


def read_table(path: Path, *, file: int) -> list[Tensor]:
    """The tensor table of one safetensors file, in file order; `file` is the index it gets in its
    checkpoint.

    Raises: CheckpointError if the file is truncated, damaged or lies about itself.
    """
    header, data_start, file_bytes = _read_header(path)
    header.pop("__metadata__", None)
    tensors = []
    for name, entry in header.items():
        tensor = _tensor(path, name, entry, file=file, data_start=data_start)
        check_tensor(path, tensor, data_start=data_start, file_bytes=file_bytes)
        tensors.append(tensor)
    if not tensors:
        raise CheckpointError(f"{path}: the file holds no tensors")
    check_no_overlap(path, tensors)
    _compare_with_library(path, tensors)
    return tensors


def _folder_name(folder: Path) -> str:
    """The folder's name, or its parent's if that says more."""
    whole = folder.resolve()
    return whole.parent.name if whole.name in _MEANINGLESS_NAMES else whole.name


def _weight_files(folder: Path) -> list[str]:
    index = folder / INDEX_FILE
    if index.is_file():
        names = sorted(set(_index_map(index).values()))
        for name in names:
            _check_shard_name(index, name)
            if not (folder / name).is_file():
                raise CheckpointError(
                    f"{index}: names shard `{name}`, which is not in {folder}",
                    hint="the download is incomplete; fetch the missing shard",
                )
        return names
    if (folder / SINGLE_FILE).is_file():
        return [SINGLE_FILE]
    raise CheckpointError(
        f"{folder}: no weights found; expected {SINGLE_FILE}, {INDEX_FILE} or a .gguf file",
        hint="give a .gguf file, or a folder with safetensors weights and their config.json",
    )


def _index_map(index: Path) -> dict[str, str]:
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            f"{index}: field `weight_map` must be a non-empty object of tensor name to shard"
        )
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str):
            raise CheckpointError(
                f"{index}: tensor `{tensor}` names shard {shard!r}; expected a file name"
            )
    return weight_map


def _check_shard_name(index: Path, name: str) -> None:
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    is_outside = (
        posix.is_absolute() or windows.is_absolute() or ".." in windows.parts or "\0" in name
    )
    if is_outside or windows.drive or not name.endswith(".safetensors"):
        raise CheckpointError(
            f"{index}: names shard {name!r}; a shard is a .safetensors file inside the "
            "checkpoint's folder",
            hint="do not use this checkpoint unless you trust where it comes from",
        )


def _check_index(folder: Path, paths: list[str], tensors: dict[str, Tensor]) -> None:
    index = folder / INDEX_FILE
    if not index.is_file():
        return
    for name, shard in _index_map(index).items():
        found = tensors.get(name)
        if found is None or paths[found.file] != shard:
            place = "in no shard" if found is None else f"in {paths[found.file]}"
            raise CheckpointError(f"{index}: says tensor `{name}` is in {shard}, but it is {place}")


def _read_header(path: Path) -> tuple[dict[str, Any], int, int]:
    try:
        file_bytes = path.stat().st_size
        with path.open("rb") as handle:
            length_bytes = handle.read(8)
            if not length_bytes:
                raise CheckpointError(f"{path}: the file is empty", hint="fetch it again")
            if len(length_bytes) < 8:
                raise CheckpointError(
                    f"{path}: the file ends inside the header ({len(length_bytes)} bytes)",
                    hint="the file is truncated; fetch it again",
                )
            (length,) = struct.unpack("<Q", length_bytes)
            if length > min(MOST_HEADER_BYTES, file_bytes - 8):
                raise CheckpointError(
                    f"{path}: the header claims {length} bytes; the file has {file_bytes - 8} "
                    "behind the length and "
                    f"{MOST_HEADER_BYTES} are allowed",
                    hint="the file is truncated or is no safetensors file; fetch it again",
                )
            text = handle.read(length)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    try:
        header = json.loads(
            text.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant
        )
    except _DuplicateName as error:
        raise CheckpointError(f"{path}: the header names `{error}` twice") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: the header is not JSON: {error}", hint="the file is damaged; fetch it again"
        ) from error
    if not isinstance(header, dict):
        raise CheckpointError(
            f"{path}: the header is a JSON {type(header).__name__}; expected an object"
        )
    return header, 8 + length, file_bytes


class _DuplicateName(Exception):
    """A JSON object has one key twice."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateName(key)
        result[key] = value
    return result


def _no_constant(text: str) -> Never:
    raise ValueError(f"{text} is not a JSON value")


def _tensor(path: Path, name: str, entry: Any, *, file: int, data_start: int) -> Tensor:
    where = f"{path}: tensor `{name}`"
    if not isinstance(entry, dict):
        raise CheckpointError(f"{where}: the entry is {entry!r}; expected an object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str):
        raise CheckpointError(f"{where}: field `dtype` is {dtype!r}; expected a text")
    if not _is_list_of_sizes(shape):
        raise CheckpointError(f"{where}: field `shape` is {shape!r}; expected a list of sizes")
    if not _is_list_of_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError(
            f"{where}: field `data_offsets` is {offsets!r}; expected [start, end]"
        )
    size = offsets[1] - offsets[0]
    bits = SAFETENSORS_VALUE_BITS.get(dtype)
    if bits is not None and dtype not in SAFETENSORS_NAMES:
        values = 1
        for length in shape:
            values *= length
        if size * 8 != values * bits:
            raise CheckpointError(
                f"{where} has {size} bytes, but shape {shape} of {dtype} takes {values * bits // 8}"
            )
    return Tensor(
        name=name,
        file=file,
        offset=data_start + offsets[0],
        bytes=size,
        dtype=SAFETENSORS_NAMES.get(dtype, dtype.lower()),
        shape=tuple(shape),
    )


def _is_list_of_sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        type(item) is int and 0 <= item < 1 << 63 for item in value
    )


def _compare_with_library(path: Path, tensors: list[Tensor]) -> None:
    try:
        with safe_open(path, framework="numpy") as opened:
            names = set(opened.keys())
            shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: the safetensors library refuses it: {error}",
            hint="the file is damaged; fetch it again",
        ) from error
    ours = {tensor.name: tensor.shape for tensor in tensors}
    if ours != shapes:
        differing = sorted(
            name for name in ours.keys() | shapes.keys() if ours.get(name) != shapes.get(name)
        )
        raise CheckpointError(
            f"{path}: the safetensors library reads tensor `{differing[0]}` differently"
        )
