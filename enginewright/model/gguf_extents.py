"""Whether every length in a GGUF header can be true.

The `gguf` package trusts them: past the end of the file it reads empty values, so an array that
claims 2⁴⁰ elements would keep it busy until memory runs out. This walk reads lengths only.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Never

from enginewright.errors import CheckpointError

_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_MOST_DEPTH = 4
_MOST_DIMENSIONS = 8
_COUNTS = struct.Struct("<QQ")
_LENGTH = struct.Struct("<Q")
_NUMBER = struct.Struct("<I")
_COUNTS_AT = 8


def check_extents(path: Path) -> None:
    """Walk over the fields and tensor entries of a version 3 file.

    Raises: CheckpointError if one of them does not end inside the file.
    """
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        walk = _Walk(path, data)
        tensor_count, field_count = _COUNTS.unpack_from(data, _COUNTS_AT)
        walk.place = _COUNTS_AT + _COUNTS.size
        for number in range(field_count):
            walk.what = f"field {number}"
            walk.string()
            walk.value(walk.number(), depth=0)
        for number in range(tensor_count):
            walk.what = f"tensor {number}"
            walk.string()
            dimensions = walk.number()
            if dimensions > _MOST_DIMENSIONS:
                walk.refuse(f"has {dimensions} dimensions; at most {_MOST_DIMENSIONS} are allowed")
            walk.skip(8 * dimensions + 4 + 8)


class _Walk:
    """A place in the header that only moves forward, never past the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.place = 0
        self.what = ""

    def skip(self, size_bytes: int) -> None:
        if size_bytes > self.size - self.place:
            self.refuse(f"takes {size_bytes} bytes at {self.place}; the file has {self.size}")
        self.place += size_bytes

    def number(self) -> int:
        self.skip(_NUMBER.size)
        return int(_NUMBER.unpack_from(self.data, self.place - _NUMBER.size)[0])

    def length(self) -> int:
        self.skip(_LENGTH.size)
        return int(_LENGTH.unpack_from(self.data, self.place - _LENGTH.size)[0])

    def string(self) -> None:
        self.skip(self.length())

    def value(self, kind: int, *, depth: int) -> None:
        if kind == _STRING:
            self.string()
        elif kind == _ARRAY and depth < _MOST_DEPTH:
            element, count = self.number(), self.length()
            if element in _SCALAR_BYTES:
                self.skip(count * _SCALAR_BYTES[element])
            else:
                for _ in range(count):
                    self.value(element, depth=depth + 1)
        elif kind in _SCALAR_BYTES:
            self.skip(_SCALAR_BYTES[kind])
        else:
            self.refuse(f"has a value of unknown type {kind}")

    def refuse(self, problem: str) -> Never:
        raise CheckpointError(
            f"{self.path}: the GGUF header cannot be read: {self.what} {problem}",
            hint="the file is truncated or damaged; fetch it again",
        )
