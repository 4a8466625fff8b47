"""Whether a compiled kernel computes what its group means. The kernel runs in a process of its own,
under a time limit, on inputs that both sides draw from a seed; what is expected of it never leaves
this one."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from enginewright.evaluation.kernel_check_calls import Check
from enginewright.evaluation.kernel_check_group import CheckedGroup, WrongKernel
from enginewright.evaluation.kernel_check_wire import ReceivingCaller, Silent
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
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        result: CheckResult | None = None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(described).encode())
                process.stdin.close()
            result = _judge(described, process.stdout)
        finally:
            timer.cancel()
            process.stdout.close()
            if not is_late.is_set() and result is not None:
                # A verdict came first: what it would still say is of no use.
                process.kill()
            process.wait()
        if result is not None:
            return result
        if is_late.is_set():
            return TimedOut(seconds=seconds)
        return _ended(process.returncode, log)


def _judge(described: dict[str, Any], source: IO[bytes]) -> CheckResult | None:
    """Compare what arrives with what the ops mean; None if the process ended before it was
    through."""
    rng = np.random.default_rng(described["seed"])
    group = CheckedGroup(described, rng)
    caller = ReceivingCaller(group, source, described["token"])
    check = Check(caller=caller, group=group, rng=rng, is_judge=True)
    try:
        check.run()
        caller.finish()
    except WrongKernel as error:
        return Wrong(rule=error.rule, reason=error.reason)
    except Silent:
        return None
    return Checked(worst_error=max(check.row_errors, default=0.0), cases=caller.cases)


def _ended(code: int, log: IO[bytes]) -> Crashed:
    if code == 0:
        # A kernel that ends the process itself.
        return Crashed(reason="the process ended, without an error, before the check was done")
    log.seek(0)
    lines = log.read().decode("utf-8", errors="replace").strip().splitlines()[-3:]
    how = f"signal {-code}" if code < 0 else f"exit {code}"
    tail = " / ".join(lines)
    return Crashed(reason=f"{how}: {tail}" if tail else how)


def python_places() -> tuple[Path, ...]:
    """What this interpreter and this package need to be run: nothing of any run or user."""
    package = Path(__file__).resolve().parent.parent
    return (Path(sys.base_prefix), Path(sys.prefix), package)


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
