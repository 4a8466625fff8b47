"""The group under check: its ops, buffers and weights, and what one call leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from enginewright.evaluation.kernel_cases import random_weight
from enginewright.evaluation.kernel_object import Guarded
from enginewright.model.dtypes import to_float32
from enginewright.model.graph import Constant, Op

Floats = npt.NDArray[np.float32]


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
    """`[slots, capacity, kv_heads, head_dim]`; empty without a cache."""
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
        self.is_cached = self.reads_cache or self.writes_cache
        self.is_whole = bool({"self_attention", "mean_pool", "first_pool"} & set(kinds))
        self.is_quantised = "activations_q8" in self.request["numerics"]
        cache = self.request["cache"]
        self.cache = CacheForm(
            dtype=cache.get("dtype", "f32"), layout=cache.get("layout", "position_major")
        )
        self.capacity = int(cache.get("capacity", 512)) if self.is_cached else 512
        self._make_weights(graph)

    def _make_weights(self, graph: dict[str, Any]) -> None:
        for op in self.ops:
            for place, name in enumerate(op.weights):
                if name in graph["constants"]:
                    values = Constant.model_validate(graph["constants"][name]).array()
                    raw = values.reshape(-1).view(np.uint8)
                else:
                    described = graph["weights"][name]
                    is_scale = op.kind in ("rms_norm", "layer_norm", "head_norm") and place == 0
                    if len(described["shape"]) == 1:
                        # The host hands out norm weights and biases as float32.
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
