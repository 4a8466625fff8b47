"""A checkpoint as data: files, tensors, configuration. Readers make it; nothing here parses a
format."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from enginewright.errors import CheckpointError
from enginewright.model.dtypes import SUPPORTED, first_bad_block, to_float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Where one tensor lies."""

    name: str
    """Name in the file."""
    file: int
    """Index into the checkpoint's files."""
    offset: int
    """First byte, from the start of the file."""
    bytes: int
    """Size in bytes."""
    dtype: str
    """Stored type: a name of `dtypes.SUPPORTED`, or the format's own name (lower case) if no engine
    reads it."""
    shape: tuple[int, ...]
    """Row-major: `[out, in]` for matrices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """One weights file."""

    path: str
    """Relative to the checkpoint's folder."""
    bytes: int
    """Size in bytes."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Everything that is known of a checkpoint before a graph is built."""

    name: str
    """Name shown to people: the file's stem or the folder's name."""
    format: Literal["gguf", "safetensors"]
    """Container format."""
    folder: Path
    """Folder that the file paths are relative to."""
    files: tuple[CheckpointFile, ...]
    """Weights files, in order of the tensors' `file` index."""
    tensors: Mapping[str, Tensor]
    """Tensors by name."""
    config: Mapping[str, Any]
    """GGUF metadata, or config.json."""
    _maps: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def described_as(self) -> str:
        """What messages call this checkpoint: its file if it has one, else its folder."""
        return str(self.folder / self.files[0].path) if len(self.files) == 1 else str(self.folder)

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`.

        Raises: CheckpointError if there is none, or if no engine can read its stored type.
        """
        found = self.tensors.get(name)
        if found is None:
            raise CheckpointError(
                f"{self.described_as}: tensor `{name}` is missing ({len(self.tensors)} tensors "
                "present)",
                hint="the file is incomplete, or no model of the kind its config says",
            )
        if found.dtype not in SUPPORTED:
            raise CheckpointError(
                f"{self.described_as}: tensor `{name}` has dtype `{found.dtype}`; "
                f"supported: {', '.join(SUPPORTED)}",
                hint="convert the checkpoint to one of the supported types",
            )
        return found

    def raw(self, tensor: Tensor) -> npt.NDArray[np.uint8]:
        """The stored bytes of `tensor`, `[tensor.bytes]`, read-only, mapped from the file."""
        mapped = self._maps.get(tensor.file)
        if mapped is None:
            path = self.folder / self.files[tensor.file].path
            try:
                with path.open("rb") as handle:
                    view = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise CheckpointError(f"{path}: cannot be read: {error}") from error
            mapped = np.frombuffer(view, dtype=np.uint8)
            self._maps[tensor.file] = mapped
        if tensor.offset + tensor.bytes > len(mapped):
            raise CheckpointError(
                f"{self.folder / self.files[tensor.file].path}: tensor `{tensor.name}` ends at "
                "byte "
                f"{tensor.offset + tensor.bytes}, but the file now has {len(mapped)}",
                hint="the file changed after it was inspected; inspect it again",
            )
        return mapped[tensor.offset : tensor.offset + tensor.bytes]

    def dequantise(self, tensor: Tensor) -> npt.NDArray[np.float32]:
        """The values of `tensor`, float32, of its shape."""
        return to_float32(self.raw(self.tensor(tensor.name)), tensor.dtype, tensor.shape)

    def scan_for_bad_values(self) -> None:
        """Read every supported tensor once and look for NaN and infinity (in block formats: in the
        scales).

        Raises: CheckpointError naming the first tensor that has one.
        """
        for tensor in self.tensors.values():
            if tensor.dtype not in SUPPORTED:
                continue
            bad = first_bad_block(self.raw(tensor), tensor.dtype)
            if bad is not None:
                stored = SUPPORTED[tensor.dtype]
                what = "value" if stored.block_values == 1 else "scale of block"
                raise CheckpointError(
                    f"{self.folder / self.files[tensor.file].path}: tensor `{tensor.name}` holds "
                    "NaN or infinity "
                    f"({what} {bad})",
                    hint="the checkpoint is damaged or training diverged; fetch it again",
                )

    def sha256(self) -> str:
        """Digest of the weights: of the file, or of the files' digests in order if there are
        several."""
        digests = [file_sha256(self.folder / file.path) for file in self.files]
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256("\n".join(digests).encode()).hexdigest()


_DIGESTS: dict[tuple[str, int, int], str] = {}


def file_sha256(path: Path) -> str:
    """Digest of a file, remembered while its path, size and time of change stay the same.

    Raises: CheckpointError if the file cannot be read.
    """
    try:
        status = path.stat()
        key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
        if key not in _DIGESTS:
            with path.open("rb") as handle:
                _DIGESTS[key] = hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    return _DIGESTS[key]
