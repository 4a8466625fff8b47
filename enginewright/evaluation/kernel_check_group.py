"""The group under check: its ops, buffers and weights, and what one call leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from enginewright.evaluation.kernel_cases import random_weight
from enginewright.evaluation.kernel_object import Guarded
from enginewright.model.dtypes import to_float32
from enginewright.model.graph import Constant, Op
from enginewright.model.op_table import RECURRENT, state_shape
from enginewright.model.ops import Step

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
NORMS = ("rms_norm", "layer_norm", "head_norm", "zero_centred_norm", "gated_norm")
"""Kinds whose first weight is a factor."""


class WrongKernel(Exception):
    """What is wrong: rule and reason."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule, self.reason = rule, reason


@dataclass
class Outcome:
    """What a call left behind."""

    outputs: dict[str, Floats]
    """By buffer, `[rows | selected | segments, width]`."""
    keys: Floats
    """`[slots, capacity, kv_heads, head_dim]`; empty without a cache. Of a recurrent op: its state,
    `[slots, 1, 1, values]`."""
    values: Floats
    """As `keys`."""


@dataclass(frozen=True, kw_only=True)
class CacheForm:
    """Element type and order of the plan's cache."""

    dtype: str
    """`f32` or `f16`."""
    layout: str
    """`position_major` or `head_major`."""

    @property
    def element(self) -> type[np.float16] | type[np.float32]:
        """The element type, for NumPy."""
        return np.float16 if self.dtype == "f16" else np.float32

    def stored(self, part: Floats) -> npt.NDArray[Any]:
        """Keys or values in the cache's type and order."""
        if self.layout == "head_major":
            part = part.swapaxes(1, 2)
        return np.ascontiguousarray(part.astype(self.element))

    def read(self, held: Guarded, shape: tuple[int, ...]) -> Floats:
        """The reverse of `stored`; `shape` is position-major."""
        if self.layout == "head_major":
            shape = (shape[0], shape[2], shape[1], shape[3])
        part = held.bytes.view(self.element).reshape(shape).astype(np.float32)
        return part.swapaxes(1, 2) if self.layout == "head_major" else part


@dataclass
class CheckedGroup:
    """The ops of a request with random weights."""

    request: dict[str, Any]
    """What `check_kernel` asks; see `KernelRequest`."""
    rng: np.random.Generator
    """Of the weights."""
    ops: list[Op] = field(init=False)
    weights: dict[str, Floats] = field(init=False, default_factory=dict)
    stored: list[tuple[str, npt.NDArray[np.uint8]]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        graph = self.request["graph"]
        self.ops = [Op.model_validate(op) for op in graph["ops"]]
        self.kinds: dict[str, str] = {name: b["rows"] for name, b in graph["buffers"].items()}
        self.widths: dict[str, int] = {name: b["width"] for name, b in graph["buffers"].items()}
        made = [name for op in self.ops for name in op.outputs]
        read = [name for op in self.ops for name in op.inputs if name not in made]
        self.inputs = list(dict.fromkeys(read))
        self.outputs = [name for name in made if name in graph["wanted"]]
        kinds = [op.kind for op in self.ops]
        self.writes_cache = "kv_write" in kinds
        self.reads_cache = "attention" in kinds
        self.recurrent = next((op for op in self.ops if op.kind in RECURRENT), None)
        self.is_cached = self.reads_cache or self.writes_cache
        self.is_whole = bool({"self_attention", "mean_pool", "first_pool"} & set(kinds))
        self.is_quantised = "activations_q8" in self.request["numerics"]
        cache = self.request["cache"]
        if self.recurrent is not None:
            # A state is float32 whatever the cache is, and checked like one written position.
            cache = {"capacity": cache.get("capacity", 512)}
            self.writes_cache = True
        self.cache = CacheForm(
            dtype=cache.get("dtype", "f32"), layout=cache.get("layout", "position_major")
        )
        is_bounded = self.is_cached or self.recurrent is not None
        self.capacity = int(cache.get("capacity", 512)) if is_bounded else 512
        self._make_weights(graph)

    def written(self, step: Step) -> tuple[Indices, Indices]:
        """Slots and positions of what the rows of `step` may change, of keys and of values."""
        if self.recurrent is None:
            return step.slots, step.positions
        slots = step.slots[step.starts[:-1]]
        return slots, np.zeros_like(slots)

    def state_values(self) -> int:
        """Values that the recurrent op carries on for each slot."""
        op = self.recurrent
        assert op is not None, "only asked of recurrent groups. This is a bug."
        return prod(state_shape(op, self.widths[op.inputs[0]]))

    def _make_weights(self, graph: dict[str, Any]) -> None:
        for op in self.ops:
            for place, name in enumerate(op.weights):
                if name in graph["constants"]:
                    values = Constant.model_validate(graph["constants"][name]).array()
                    raw = values.reshape(-1).view(np.uint8)
                else:
                    described = graph["weights"][name]
                    is_scale = op.kind in NORMS and place == 0
                    if len(described["shape"]) == 1 or op.kind in RECURRENT:
                        # The host hands out norm weights, biases and filters as float32.
                        described = described | {"dtype": "f32"}
                    raw = random_weight(self.rng, described, is_scale=is_scale)
                    values = to_float32(raw, described["dtype"], tuple(described["shape"]))
                self.stored.append((name, raw))
                self.weights[name] = values

    def tables(self) -> list[tuple[str, Floats, int]]:
        """Kind, values and first usable row of every table that the group embeds from."""
        found = []
        for op in self.ops:
            if op.kind == "embed":
                kinds = op.attributes["tables"]
                assert isinstance(kinds, list), "tables are a list. This is a bug."
                for name, kind in zip(op.weights, kinds, strict=True):
                    first = op.integer("position_offset") if kind == "position" else 0
                    found.append((kind, self.weights[name], first))
        return found
