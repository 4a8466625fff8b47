"""Whether a compiled kernel computes what its group means: checked in a process of its own, under a
time limit."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from enginewright.errors import InternalError
from enginewright.evaluation.sandbox import Policy, Sandbox
from enginewright.model.graph import Graph

MOST_CHECK_BYTES = 4 << 30
"""Memory that the check of one kernel may take."""
MOST_CHECK_SECONDS = 120.0
"""Time that the check of one kernel may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRequest:
    """What to check."""

    object: Path
    """The compiled kernel."""
    ops: tuple[str, ...]
    """Ids of the graph's ops, in the group's order."""
    layouts: tuple[str, ...]
    """Layout of each weight."""
    step: str
    """`prefill`, `decode` or `encode`."""
    rows: int
    """Most rows of the step."""
    selected: int
    """Most selected rows of the step."""
    cache: dict[str, Any] = field(default_factory=dict)
    """`dtype`, `layout` and `capacity` of the plan's cache."""
    numerics: tuple[str, ...] = ()
    """Approximations that the plan declares."""
    seed: int
    """Seed of the inputs; a fresh one for each check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Right on every case."""

    worst_error: float
    """Largest difference from the semantics in float64, relative to the row's largest value."""
    cases: int
    """Calls that were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Computes something else, or breaks the kernel contract."""

    rule: str
    """`values`, `row_invariance`, `bounds`, `inputs_changed`, `abi` or `unwritten`."""
    reason: str
    """One line with case, place and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process ended without an answer."""

    reason: str
    """Signal or exit status, and the last lines it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """No answer in time."""

    seconds: float
    """The limit."""


CheckResult = Checked | Wrong | Crashed | TimedOut


def check_kernel(
    graph: Graph,
    request: KernelRequest,
    *,
    seconds: float = MOST_CHECK_SECONDS,
    sandbox: Sandbox | None = None,
) -> CheckResult:
    """Check one compiled group against the NumPy semantics of its ops.

    Random inputs of several magnitudes; 1, 2, 3, 5 and many rows; 1, 2 and 3 threads; each case
    also cut up, in other company and on other threads, where every byte must be the same.
    """
    described = asdict(request) | {
        "object": str(request.object),
        "graph": graph_excerpt(graph, request.ops),
        "token": secrets.token_hex(16),
    }
    command: tuple[str, ...] = (
        *(sys.executable, "-m", "enginewright.evaluation.kernel_check_worker"),
    )
    if sandbox is not None:
        command = sandbox.command(
            Policy(
                read_only=(*python_places(), request.object),
                environment={"PATH": os.environ.get("PATH", os.defpath)},
                memory_bytes=MOST_CHECK_BYTES,
            ),
            command,
        )
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            answer, log = process.communicate(json.dumps(described), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return TimedOut(seconds=seconds)
    if process.returncode != 0:
        tail = " / ".join(log.strip().splitlines()[-3:])
        how = (
            f"signal {-process.returncode}"
            if process.returncode < 0
            else f"exit {process.returncode}"
        )
        return Crashed(reason=f"{how}: {tail}" if tail else how)
    return _result(answer, described["token"])


def python_places() -> tuple[Path, ...]:
    """What this interpreter and this package need to be run: nothing of any run or user."""
    package = Path(__file__).resolve().parent.parent
    return (Path(sys.base_prefix), Path(sys.prefix), package)


def _result(answer: str, token: str) -> CheckResult:
    # A kernel that ends the process itself leaves no answer, or one without the token.
    try:
        result = json.loads(answer)
        is_ours = result.pop("token") == token
    except (ValueError, KeyError, AttributeError):
        is_ours = False
    if not is_ours:
        return Crashed(reason="the process ended, without an error, before the check was done")
    match result.pop("verdict"):
        case "checked":
            return Checked(**result)
        case "wrong":
            return Wrong(**result)
        case other:
            raise InternalError(f"the worker answered {other!r}. This is a bug.")


def graph_excerpt(graph: Graph, ops: Sequence[str]) -> dict[str, Any]:
    """What the worker must know of the graph: the group's ops, their buffers and weights, and who
    reads them."""
    wanted = [graph.op(op_id) for op_id in ops]
    inside = set(ops)
    names = {name for op in wanted for name in (*op.inputs, *op.outputs)}
    weights = {name for op in wanted for name in op.weights}
    read_outside = {name for op in graph.ops if op.id not in inside for name in op.inputs}
    return {
        "ops": [op.model_dump(mode="json") for op in wanted],
        "buffers": {name: graph.buffers[name].model_dump(mode="json") for name in sorted(names)},
        "weights": {
            name: {"dtype": graph.weights[name].dtype, "shape": graph.weights[name].shape}
            for name in sorted(weights & graph.weights.keys())
        },
        "constants": {
            name: graph.constants[name].model_dump(mode="json")
            for name in sorted(weights & graph.constants.keys())
        },
        "wanted": sorted(names & (read_outside | {graph.output})),
    }
