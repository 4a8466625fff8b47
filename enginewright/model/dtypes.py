"""Stored element types: how many values a block holds, how many bytes it takes, and how it is read.

The names are those of graph.json. Block formats are laid out as GGUF stores them; the `gguf`
package defines
their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

import gguf
import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredType:
    """One stored element type."""

    name: str
    """Name in graph.json."""
    block_values: int
    """Values in a block; 1 for plain floats."""
    block_bytes: int
    """Bytes of a block."""
    gguf_type: gguf.GGMLQuantizationType
    """The same type in GGUF's numbering."""

    def size_bytes(self, values: int) -> int:
        """Bytes that `values` values take; `values` is a whole number of blocks."""
        return values // self.block_values * self.block_bytes


def _stored(name: str) -> StoredType:
    gguf_type = gguf.GGMLQuantizationType[name.upper()]
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[gguf_type]
    return StoredType(
        name=name, block_values=block_values, block_bytes=block_bytes, gguf_type=gguf_type
    )


SUPPORTED: dict[str, StoredType] = {
    name: _stored(name)
    for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q6_k")
}
"""Every stored type that an engine can read, by name."""

SAFETENSORS_NAMES: dict[str, str] = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
"""Names that safetensors gives to the types we support."""

SAFETENSORS_VALUE_BITS: dict[str, int] = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "C64": 64,
}
"""Bits of a value of each type a safetensors file may hold; a file may carry types that no graph
uses."""

_SCALES: dict[str, tuple[tuple[int, int], ...]] = {
    "q8_0": ((0, 2),),
    "q4_0": ((0, 2),),
    "q5_0": ((0, 2),),
    "q4_1": ((0, 2), (2, 4)),
    "q4_k": ((0, 2), (2, 4)),
    "q6_k": ((208, 210),),
}
"""Byte ranges of the float16 scales and minima in a block."""


def to_float32(
    raw: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Stored bytes as float32 values of `shape`, row-major; exact for plain floats."""
    if dtype == "f32":
        return raw.view("<f4").reshape(shape).astype(np.float32)
    if dtype == "f16":
        return raw.view("<f2").reshape(shape).astype(np.float32)
    if dtype == "bf16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    stored = SUPPORTED[dtype]
    rows = raw.reshape(-1, stored.size_bytes(shape[-1]))
    values: npt.NDArray[np.float32] = gguf.quants.dequantize(rows, stored.gguf_type)
    return values.reshape(shape)


def first_bad_block(raw: npt.NDArray[np.uint8], dtype: str) -> int | None:
    """Index of the first value (plain floats) or block (its scales) that is NaN or infinite; None
    if all are finite."""
    if dtype in ("f32", "f16", "bf16"):
        # The exponent bits alone say it: cheaper than a conversion, and bf16 has no NumPy type.
        width, mask = {
            "f32": ("<u4", 0x7F80_0000),
            "f16": ("<u2", 0x7C00),
            "bf16": ("<u2", 0x7F80),
        }[dtype]
        bits = raw.view(width)
        bad = (bits & bits.dtype.type(mask)) == mask
    else:
        blocks = raw.reshape(-1, SUPPORTED[dtype].block_bytes)
        bad = np.zeros(len(blocks), dtype=np.bool_)
        for start, end in _SCALES[dtype]:
            halves = np.ascontiguousarray(blocks[:, start:end]).view("<u2").ravel()
            bad |= (halves & np.uint16(0x7C00)) == 0x7C00
    return int(bad.argmax()) if bad.any() else None
