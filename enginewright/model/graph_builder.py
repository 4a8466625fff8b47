"""Puts a graph together op by op; families use it, so that each of them reads like the model it
describes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint, file_sha256
from enginewright.model.graph import (
    Attribute,
    Buffer,
    Constant,
    Dimensions,
    Graph,
    GraphFile,
    Op,
    Rows,
    Text,
    Weight,
)

Shape = tuple[int, ...]


class GraphBuilder:
    """Collects ops, buffers and weights of one graph. Every op has one output at most, named like
    the op."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._weights: dict[str, Weight] = {}
        self._constants: dict[str, Constant] = {}
        self._buffers: dict[str, Buffer] = {}
        self._ops: list[Op] = []

    def weight(self, name: str, shape: Shape) -> str:
        """Take the tensor `name` of the checkpoint into the graph.

        Raises: CheckpointError if it is missing, of another shape, or of a type no engine reads.
        """
        tensor = self.checkpoint.tensor(name)
        if tensor.shape != shape:
            raise CheckpointError(
                f"{self.checkpoint.described_as}: tensor `{name}` has shape {list(tensor.shape)}; "
                f"the configuration says {list(shape)}",
                hint="configuration and weights belong to different models",
            )
        self._weights[name] = Weight(
            file=tensor.file,
            offset=tensor.offset,
            bytes=tensor.bytes,
            dtype=tensor.dtype,
            shape=list(shape),
        )
        return name

    def optional_weight(self, name: str, shape: Shape) -> list[str]:
        """`[name]` if the checkpoint has that tensor, else `[]`."""
        return [self.weight(name, shape)] if name in self.checkpoint.tensors else []

    def constant(self, name: str, values: npt.NDArray[np.float32]) -> str:
        """Put a computed array into the graph."""
        self._constants[name] = Constant(
            shape=list(values.shape), values=[float(value) for value in values.ravel()]
        )
        return name

    def width(self, buffer: str) -> int:
        """Values in a row of `buffer`."""
        return self._buffers[buffer].width

    def add(
        self,
        op_id: str,
        kind: str,
        inputs: list[str],
        *,
        width: int,
        weights: list[str] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """Append an op and give its output buffer; `width` 0 means that it has none."""
        outputs = [op_id] if width else []
        if width:
            self._buffers[op_id] = Buffer(rows=self._rows(kind, inputs), width=width)
        self._ops.append(
            Op(
                id=op_id,
                kind=kind,
                inputs=inputs,
                outputs=outputs,
                weights=weights or [],
                attributes=dict(attributes or {}),
            )
        )
        return op_id

    def finish(
        self, *, family: str, kind: str, dimensions: Dimensions, output: str, text: Text
    ) -> Graph:
        """The verified graph."""
        checkpoint = self.checkpoint
        graph = Graph(
            format="enginewright.graph/1",
            name=checkpoint.name,
            family=family,
            kind="decoder" if kind == "decoder" else "encoder",
            dimensions=dimensions,
            files=[
                GraphFile(
                    path=file.path,
                    bytes=file.bytes,
                    sha256=file_sha256(checkpoint.folder / file.path),
                )
                for file in checkpoint.files
            ],
            weights=self._weights,
            constants=self._constants,
            buffers=self._buffers,
            ops=self._ops,
            output=output,
            text=text,
        )
        graph.verify()
        return graph

    def _rows(self, kind: str, inputs: list[str]) -> Rows:
        if kind == "select_rows":
            return "selected"
        if kind in ("mean_pool", "first_pool"):
            return "segments"
        return self._buffers[inputs[0]].rows if inputs else "tokens"
