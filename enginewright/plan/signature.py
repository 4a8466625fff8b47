"""What a group is, apart from where it stands: the key under which its best kernel is
remembered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from enginewright.model.graph import Graph, Op
from enginewright.plan.constants import op_constants, touches_cache
from enginewright.plan.contracts import StepName
from enginewright.plan.plan import CachePlan, StepPlan


def rows_bucket(rows: int) -> int:
    """The least power of two that is at least `rows`."""
    return 1 << (rows - 1).bit_length()


def group_signature(
    graph: Graph, ops: Sequence[Op], step_name: StepName, step: StepPlan, *, cache: CachePlan
) -> str:
    """32 hexadecimal digits over op kinds, wiring, shapes, stored types, step, rows bucket and
    cache form.

    Groups of different layers, and of other models with the same shapes, share it.
    """
    numbers: dict[str, int] = {}

    def place(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    described = [
        {
            "kind": op.kind,
            "inputs": [place(name) for name in op.inputs],
            "outputs": [place(name) for name in op.outputs],
            "constants": op_constants(graph, op),
        }
        for op in ops
    ]
    whole = {
        "ops": described,
        "step": step_name,
        "rows": rows_bucket(step.rows),
        "cache": [cache.dtype, cache.layout] if touches_cache(ops) else [],
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]
