"""How long the steps of a workload take in an engine, by the host's own clock: good enough to
choose
what to try, never to judge by."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from enginewright.evaluation.sandbox import Policy, Sandbox
from enginewright.model import StepShape, decode_shape, prompt_shape
from enginewright.plan import Plan
from enginewright.plan.contracts import StepName
from enginewright.target import Scenario, Target

PROFILE_SECONDS = 60.0
"""Time that one profile may take."""
_REPEATS: dict[StepName, int] = {"decode": 40, "prefill": 6, "encode": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """One step that a scenario runs."""

    step: StepName
    """Which."""
    shape: StepShape
    """Rows and context."""
    times: float
    """How often a request runs it."""


def steps_of(target: Target, scenario: Scenario, plan: Plan) -> list[TimedStep]:
    """The steps behind one request of a scenario, as far as the target's objective counts them."""
    if target.is_encoder:
        room = max(1, plan.steps["encode"].rows // scenario.prompt_tokens)
        together = min(scenario.batch, room)
        shape = prompt_shape(scenario.prompt_tokens, sequences=together)
        return [TimedStep(step="encode", shape=shape, times=math.ceil(scenario.batch / together))]
    rows = min(scenario.prompt_tokens, plan.steps["prefill"].rows)
    streams = min(scenario.streams, plan.steps["decode"].rows)
    middle = scenario.prompt_tokens + max(1, scenario.output_tokens // 2)
    prefill = TimedStep(
        step="prefill", shape=prompt_shape(rows), times=scenario.prompt_tokens / rows
    )
    decode = TimedStep(
        step="decode",
        shape=decode_shape(middle, rows=streams),
        times=float(max(1, scenario.output_tokens - 1)),
    )
    match target.workload.objective:
        case "ttft_ms" | "prefill_tokens_per_s":
            return [prefill]
        case "decode_tokens_per_s":
            return [decode]
        case _:
            return [prefill, decode]


def time_step(
    program: Path,
    engine: Path,
    checkpoint: Path,
    step: StepName,
    shape: StepShape,
    *,
    sandbox: Sandbox | None = None,
) -> float | None:
    """Median seconds of a step; None if the engine fails. `sandbox` is what it runs in; None trusts
    it."""
    found = profile_step(
        program, engine, checkpoint, step, shape, repeats=_REPEATS[step], sandbox=sandbox
    )
    return None if found is None else float(median(found["step_nanoseconds"])) / 1e9


def profile_step(
    program: Path,
    engine: Path,
    checkpoint: Path,
    step: StepName,
    shape: StepShape,
    *,
    repeats: int,
    sandbox: Sandbox | None = None,
) -> dict[str, Any] | None:
    """What the host's `profile` says of a step (docs/architecture.md); None if the engine fails."""
    command: tuple[str, ...] = (
        *(str(program), "profile", "--engine", str(engine), "--checkpoint", str(checkpoint)),
        *("--step", step, "--rows", str(shape.rows), "--repeats", str(repeats)),
    )
    if step == "encode":
        command += ("--segment", str(shape.rows // shape.segments))
    if step == "decode":
        # The cost counts the new token as part of the context, the host does not.
        command += ("--context", str(shape.context - 1))
    if sandbox is not None:
        policy = Policy(
            read_only=(program, engine, checkpoint),
            environment={"PATH": os.environ.get("PATH", os.defpath)},
        )
        command = sandbox.command(policy, command)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROFILE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        # What a kernel printed stands in the way: it has no business on stdout.
        return None
