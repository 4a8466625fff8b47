"""Inputs for kernel checks: steps, activations, caches and weights, random, and their subsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from enginewright.model.dtypes import SUPPORTED
from enginewright.model.ops import Step

Floats = npt.NDArray[np.float32]
STALE = 3.0e4
"""What a cache holds where nothing was written: a finite value that shows when it is used."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call: the step's rows, the activations, and the cache before it."""

    step: Step
    """Its rows; without caches."""
    inputs: dict[str, Floats]
    """External inputs by buffer."""
    keys: Floats
    """`[slots, capacity, kv_heads, head_dim]`; empty without a cache."""
    values: Floats
    """As `keys`."""
    label: str
    """For messages."""

    def counts(self) -> dict[str, int]:
        """How many rows each kind of buffer has."""
        return {
            "tokens": len(self.step.token_ids),
            "selected": len(self.step.selected_rows),
            "segments": len(self.step.segments),
        }

    def part(
        self, rows: npt.NDArray[np.int64], kinds: dict[str, str], keys: Floats, values: Floats
    ) -> Case:
        """The same rows (whole or cut segments, in the order given), over another state of the
        cache."""
        step = self.step
        segment = np.searchsorted(step.starts, rows, side="right") - 1
        breaks = np.flatnonzero(np.diff(segment) != 0) + 1
        where = {int(row): place for place, row in enumerate(rows)}
        chosen = [i for i, row in enumerate(step.selected_rows) if int(row) in where]
        index = {
            "tokens": rows,
            "selected": np.array(chosen, np.int64),
            "segments": segment[np.r_[0, breaks]],
        }
        return Case(
            step=Step(
                token_ids=step.token_ids[rows],
                positions=step.positions[rows],
                slots=step.slots[rows],
                starts=np.r_[0, breaks, len(rows)].astype(np.int64),
                selected_rows=np.array(
                    [where[int(step.selected_rows[i])] for i in chosen], np.int64
                ),
            ),
            inputs={name: held[index[kinds[name]]] for name, held in self.inputs.items()},
            keys=keys,
            values=values,
            label=f"rows {rows.tolist()[:8]} of {self.label}",
        )


def random_step(
    rng: np.random.Generator, *, name: str, rows: int, selected: int, capacity: int, vocabulary: int
) -> Step:
    """A step as the host makes them: decode gives each row a sequence, the others cut rows into
    up to three."""
    parts = rows if name == "decode" else min(rows, int(rng.integers(1, 4)))
    cuts = np.sort(rng.choice(np.arange(1, max(rows, 2)), parts - 1, replace=False))
    starts = np.r_[0, cuts, rows].astype(np.int64)
    slots, positions = [], []
    order = rng.permutation(parts)
    for number, length in enumerate(np.diff(starts)):
        most = max(1, capacity - int(length) + 1)
        first = 0 if name == "encode" else int(rng.integers(0, most))
        slots += [order[number]] * int(length)
        positions += list(range(first, first + int(length)))
    return Step(
        token_ids=rng.integers(0, vocabulary, rows),
        positions=np.array(positions, np.int64),
        slots=np.array(slots, np.int64),
        starts=starts,
        selected_rows=rng.permutation(rows)[: min(rows, selected)].astype(np.int64),
    )


def random_cache(
    rng: np.random.Generator,
    step: Step,
    shape: tuple[int, int, int],
    *,
    holds_rows: bool,
    dtype: str,
) -> tuple[Floats, Floats]:
    """Keys and values, random below each row's position (and at it, if `holds_rows`), stale
    elsewhere.

    Shapes: [slots, capacity, kv_heads, head_dim]; `shape` is all but the slots.
    """
    slots = int(step.slots.max()) + 1
    made = []
    for _ in range(2):
        part = np.full((slots, *shape), STALE, np.float32)
        for rows in step.segments:
            known = (
                int(step.positions[rows][-1]) + 1 if holds_rows else int(step.positions[rows][0])
            )
            values = rng.standard_normal((known, *shape[1:])).astype(np.float32)
            if dtype == "f16":
                values = values.astype(np.float16).astype(np.float32)
            part[int(step.slots[rows.start]), :known] = values
        made.append(part)
    return made[0], made[1]


def random_weight(
    rng: np.random.Generator, described: dict[str, Any], *, is_scale: bool
) -> npt.NDArray[np.uint8]:
    """Stored bytes of a weight: plain floats, or blocks with random bits and sane scales."""
    dtype, shape = described["dtype"], tuple(described["shape"])
    count = int(np.prod(shape))
    values = rng.standard_normal(count, dtype=np.float32) * np.float32(
        shape[-1] ** -0.5 if len(shape) > 1 else 1.0
    )
    if is_scale:
        values = values * np.float32(0.3) + 1
    if dtype == "f32":
        return values.view(np.uint8)
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint8)
    if dtype == "bf16":
        return np.ascontiguousarray((values.view(np.uint32) >> 16).astype(np.uint16)).view(np.uint8)
    stored = SUPPORTED[dtype]
    blocks = rng.integers(
        0, 256, (count // stored.block_values, stored.block_bytes), dtype=np.uint8
    )
    scales = (rng.random((len(blocks), 1), dtype=np.float32) + 0.1) * np.float32(0.01)
    places = {"q4_1": [(0, 1.0), (2, -7.5)], "q4_k": [(0, 0.1), (2, 0.75)], "q6_k": [(208, 0.02)]}
    for at, factor in places.get(dtype, [(0, 1.0)]):
        blocks[:, at : at + 2] = (scales * np.float32(factor)).astype(np.float16).view(np.uint8)
    return blocks.reshape(-1)
