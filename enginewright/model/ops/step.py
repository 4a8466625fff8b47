"""The rows of one step, as kernels see them (`Step` and `Cache` of kernels/cpu/abi.rs)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Keys and values of one layer. Written in place by `kv_write`."""

    keys: Floats
    """`[slots, capacity, kv_heads, head_dim]`."""
    values: Floats
    """`[slots, capacity, kv_heads, head_dim]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Rows of several sequences laid end to end."""

    token_ids: Indices
    """`[rows]`."""
    positions: Indices
    """Position of each row in its sequence, `[rows]`."""
    slots: Indices
    """Cache slot of each row, `[rows]`."""
    starts: Indices
    """First row of each segment, then the number of rows, `[segments + 1]`."""
    selected_rows: Indices
    """Rows whose output is wanted, `[selected]`."""
    caches: dict[int, Cache] = field(default_factory=dict)
    """By layer; empty for encoders."""
    states: dict[str, Floats] = field(default_factory=dict)
    """What recurrent ops carry on, `[slots, …]` by op; written in place."""

    @property
    def segments(self) -> list[slice]:
        """The rows of each segment."""
        bounds = self.starts.tolist()
        return [slice(first, last) for first, last in itertools.pairwise(bounds)]


def whole_sequences(sequences: list[list[int]]) -> Step:
    """A step that runs whole sequences from their first token, one slot each, every row selected;
    without caches."""
    lengths = [len(sequence) for sequence in sequences]
    rows = sum(lengths)
    return Step(
        token_ids=np.array([token for sequence in sequences for token in sequence], np.int64),
        positions=np.concatenate([np.arange(length) for length in lengths] or [np.arange(0)]),
        slots=np.repeat(np.arange(len(lengths)), lengths),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        selected_rows=np.arange(rows),
    )
