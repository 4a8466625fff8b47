"""The champion's time by group, measured by the host's profiler, with what each group must do.

`profile.json` is a list; each entry has `step` (name of the step), `rows`, `segments`, `selected`,
`context` (its size), `profile` (what `enginewright-engine profile` prints), `op_costs` (by op id:
`kind`, `bytes`, `flops`), `bytes_per_second` and `flops_per_second` (of this machine, with the
threads of the engine).
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.delivery.report.material import GroupTime
from enginewright.errors import EngineError
from enginewright.model import Graph, StepShape, decode_shape, prompt_shape, step_cost
from enginewright.target import Machine, Scenario

_INT8_OVER_F32 = 4.0
"""Operations of an int8 dot product over those of float32 in a register of the same width."""
_LAYER = re.compile(r"^L\d+\.")
"""What the name of an op in a layer begins with."""
_REPEATS = 15
_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledEngine:
    """What is profiled, and on what."""

    program: Path
    """The host program."""
    engine: Path
    """The engine's folder."""
    checkpoint: Path
    """Folder of the weights."""
    machine: Machine
    """Gives bandwidth and peak."""


def profile_scenarios(subject: ProfiledEngine, scenarios: Sequence[Scenario]) -> list[Any]:
    """Profile the steps that the scenarios run, each once: the content of `profile.json`.

    Raises: EngineError if the host cannot profile the engine.
    """
    graph = Graph.from_json((subject.engine / "graph.json").read_bytes())
    plan = json.loads((subject.engine / "plan.json").read_text())
    wanted: dict[tuple[str, StepShape], None] = {}
    for scenario in scenarios:
        for step, shape in _shapes(graph, plan, scenario):
            wanted.setdefault((step, shape))
    return [_profiled(subject, graph, plan, step, shape) for step, shape in wanted]


def _shapes(graph: Graph, plan: dict[str, Any], scenario: Scenario) -> list[tuple[str, StepShape]]:
    if graph.kind == "encoder":
        room = max(1, plan["steps"]["encode"]["rows"] // scenario.prompt_tokens)
        shape = prompt_shape(scenario.prompt_tokens, sequences=min(scenario.batch, room))
        return [("encode", shape)]
    rows = min(scenario.prompt_tokens, plan["steps"]["prefill"]["rows"])
    streams = min(scenario.streams, plan["steps"]["decode"]["rows"])
    middle = scenario.prompt_tokens + max(1, scenario.output_tokens // 2)
    return [("prefill", prompt_shape(rows)), ("decode", decode_shape(middle, rows=streams))]


def _profiled(
    subject: ProfiledEngine, graph: Graph, plan: dict[str, Any], step: str, shape: StepShape
) -> dict[str, Any]:
    threads = int(plan["threads"])
    peak = subject.machine.peak_flops_per_second(threads)
    if "activations_q8" in plan["numerics"]:
        peak *= _INT8_OVER_F32
    value_bytes = 2 if plan["cache"]["dtype"] == "f16" else 4
    return {
        "step": step,
        "rows": shape.rows,
        "segments": shape.segments,
        "selected": shape.selected,
        "context": shape.context,
        "profile": _run(subject, step, shape),
        "op_costs": {
            cost.op: {
                "kind": cost.kind,
                "bytes": cost.weight_bytes + cost.cache_bytes,
                "flops": cost.flops,
            }
            for cost in step_cost(graph, shape, cache_value_bytes=value_bytes).ops
        },
        "bytes_per_second": subject.machine.read_bytes_per_second(threads),
        "flops_per_second": peak,
    }


def _run(subject: ProfiledEngine, step: str, shape: StepShape) -> Any:
    command = [
        str(subject.program),
        "profile",
        *("--engine", str(subject.engine), "--checkpoint", str(subject.checkpoint)),
        *("--step", step, "--rows", str(shape.rows), "--repeats", str(_REPEATS)),
    ]
    if step == "encode":
        command += ["--segment", str(shape.rows // shape.segments)]
    if step == "decode":
        # The cost counts the new token as part of the context, the host does not.
        command += ["--context", str(shape.context - 1)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{subject.engine}: cannot be profiled: {error}") from error
    if done.returncode != 0:
        raise EngineError(
            f"{subject.engine}: profile of step {step} ended with {done.returncode}: "
            f"{done.stderr.strip()}",
            hint=f"run it alone: {' '.join(command)}",
        )
    return json.loads(done.stdout)


def group_times(profile: list[dict[str, Any]]) -> tuple[GroupTime, ...]:
    """Groups of one kernel and the same ops of every layer, summed: a row is not a layer."""
    found = []
    for entry in profile:
        sums: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
        for group in entry["profile"]["groups"]:
            costs = [entry["op_costs"][op] for op in group["ops"]]
            floor = 1e9 * max(
                sum(cost["bytes"] for cost in costs) / entry["bytes_per_second"],
                sum(cost["flops"] for cost in costs) / entry["flops_per_second"],
            )
            names = " ".join(_LAYER.sub("", op) for op in group["ops"])
            measured = statistics.median(group["nanoseconds"])
            sums.setdefault((group["kernel"], names), []).append((group["id"], measured, floor))
        found += [
            GroupTime(
                step=_step_name(entry),
                group=members[0][0],
                kernel=kernel,
                ops=names,
                calls=len(members),
                measured_ns=sum(measured for _, measured, _ in members),
                floor_ns=sum(floor for _, _, floor in members),
            )
            for (kernel, names), members in sums.items()
        ]
    return tuple(found)


def _step_name(entry: dict[str, Any]) -> str:
    rows = entry["rows"]
    words = f"{entry['step']}, {rows} row" + ("s" if rows != 1 else "")
    if entry["segments"] > 1:
        words += f" of {entry['segments']} sequences"
    if entry["step"] != "encode":
        words += f", {entry['context']:,} tokens of context"
    return words
