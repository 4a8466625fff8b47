"""The model graph as data: what is computed, with which weights. graph.json is exactly this."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from enginewright.errors import CheckpointError

Rows = Literal["tokens", "selected", "segments"]
Attribute = int | float | str | list[str]
Number = int | float


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GraphFile(_Record):
    """One weights file."""

    path: str
    """Relative to the checkpoint's folder."""
    bytes: int
    """Size in bytes."""
    sha256: str
    """Digest of the whole file."""


class Weight(_Record):
    """Where a weight is stored."""

    file: int
    """Index into `files`."""
    offset: int
    """First byte in the file."""
    bytes: int
    """Size in bytes."""
    dtype: str
    """Stored type, a name of `dtypes.SUPPORTED`."""
    shape: list[int]
    """Row-major."""


class Constant(_Record):
    """A small computed float32 array."""

    shape: list[int]
    """Row-major."""
    values: list[float]
    """Every value; exactly a float32."""

    def array(self) -> npt.NDArray[np.float32]:
        """The values, float32, of `shape`."""
        return np.asarray(self.values, dtype=np.float32).reshape(self.shape)


class Buffer(_Record):
    """A float32 activation, `[rows, width]`."""

    rows: Rows
    """What its rows are: tokens of the step, wanted tokens, or segments."""
    width: int
    """Values in a row."""


class Op(_Record):
    """One thing to compute."""

    id: str
    """Unique in the graph; `L{n}.` in front for the ops of layer n."""
    kind: str
    """A name of the op table in docs/architecture.md."""
    inputs: list[str]
    """Buffers read."""
    outputs: list[str]
    """Buffers written; each buffer is written once."""
    weights: list[str] = []
    """Weights or constants read."""
    attributes: dict[str, Attribute] = {}
    """Fixed parameters of the op."""

    def integer(self, name: str) -> int:
        """The attribute `name`, a whole number."""
        value = self.attributes[name]
        assert isinstance(value, int), f"{self.id}.{name} is {value!r}. This is a bug."
        return value

    def number(self, name: str) -> float:
        """The attribute `name`, a number."""
        value = self.attributes[name]
        assert isinstance(value, (int, float)), f"{self.id}.{name} is {value!r}. This is a bug."
        return float(value)


class Dimensions(_Record):
    """The sizes people ask for."""

    hidden: int
    """Width of the residual stream."""
    layers: int
    """Transformer layers."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    head_dim: int
    """Values in a head."""
    feed_forward: int
    """Inner width of the feed-forward part."""
    vocabulary: int
    """Rows of the token embedding."""
    context: int
    """Most positions of a sequence."""


class Text(_Record):
    """What a server needs to know about text, besides tokenizer.json."""

    chat_template: str | None
    """Jinja template, or None."""
    bos_id: int | None
    """Beginning of sequence."""
    eos_ids: list[int]
    """Tokens that end a generation."""
    add_bos: bool
    """Whether encoding puts `bos_id` in front."""
    bos_token: str | None
    """Text of `bos_id`, for the template."""
    eos_token: str | None
    """Text of the first end token, for the template."""


class Graph(_Record):
    """What a model computes."""

    format: Literal["enginewright.graph/1"]
    """Version of this record."""
    name: str
    """Name of the checkpoint."""
    family: str
    """`llama`, `qwen3_5` or `bert`."""
    kind: Literal["decoder", "encoder"]
    """Whether it gives logits by token or an embedding by segment."""
    dimensions: Dimensions
    """Sizes."""
    files: list[GraphFile]
    """Weights files."""
    weights: dict[str, Weight]
    """Stored weights that ops use."""
    constants: dict[str, Constant]
    """Computed weights that ops use."""
    buffers: dict[str, Buffer]
    """Activations."""
    ops: list[Op]
    """In an order in which they can run."""
    output: str
    """The buffer that is the answer."""
    text: Text
    """Text matters."""

    def to_json(self) -> str:
        """Canonical text: the same graph gives the same bytes."""
        return (
            json.dumps(self.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Graph:
        """Parse and verify graph.json.

        Raises: CheckpointError naming the first wrong field.
        """
        try:
            graph = cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise CheckpointError(
                f"graph.json: field `{field}`: {first['msg']}",
                hint="make it again from the checkpoint",
            ) from error
        graph.verify()
        return graph

    @cached_property
    def sha256(self) -> str:
        """Digest of `to_json()`."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def op(self, op_id: str) -> Op:
        """The op called `op_id`; KeyError if there is none."""
        return self._ops_by_id[op_id]

    @cached_property
    def _ops_by_id(self) -> Mapping[str, Op]:
        return {op.id: op for op in self.ops}

    @cached_property
    def readers(self) -> Mapping[str, frozenset[str]]:
        """Buffer → ids of the ops that read it."""
        found: dict[str, set[str]] = {}
        for op in self.ops:
            for name in op.inputs:
                found.setdefault(name, set()).add(op.id)
        return {name: frozenset(ids) for name, ids in found.items()}

    def weight_shape(self, name: str) -> tuple[int, ...]:
        """Shape of the weight or constant `name`."""
        held = self.weights.get(name) or self.constants[name]
        return tuple(held.shape)

    def verify(self) -> None:
        """Check that the graph holds together: names, shapes, order, files.

        Raises: CheckpointError naming what is wrong.
        """
        # Here and not at the top: the op table reads these records.
        from enginewright.model.verify import verify_graph

        verify_graph(self)

    def is_safe_path(self, path: str) -> bool:
        """Whether a file path stays inside the checkpoint's folder."""
        parts = PurePosixPath(path)
        return bool(path) and not parts.is_absolute() and ".." not in parts.parts
