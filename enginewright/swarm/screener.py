"""Screening: the steps that two plans do differently, timed in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from enginewright.model import StepShape
from enginewright.plan import Plan
from enginewright.plan.contracts import StepName
from enginewright.swarm.run import Run
from enginewright.swarm.step_timing import steps_of
from enginewright.variation.idea import Context, Idea

TimeStep = Callable[[Path, StepName, StepShape], float | None]
"""Seconds of a step of an engine; None if it fails."""


class MicroScreener:
    """Builds plans and times their steps, until its time is spent."""

    def __init__(self, run: Run, time_step: TimeStep, *, seconds: float) -> None:
        """`seconds`: how long one round of screening may take."""
        self._run = run
        self._time_step = time_step
        self._deadline = time.monotonic() + seconds
        self._engines: dict[str, Path | None] = {}
        self._known: dict[tuple[str, StepName, StepShape], float] = {}

    def has_time(self) -> bool:
        """Whether another idea may be screened."""
        return time.monotonic() < self._deadline

    def speedup(self, base: Idea | None, idea: Idea, context: Context) -> float | None:
        """Speed of the idea's plan over the context's: the geometric mean over the scenarios of the
        ratio of their steps' times. None if it cannot be built or run."""
        with self._run.stages.stage("screen"):
            found = self._speedup(context.plan, idea.plan)
        is_out = found is None or found < 1.0
        self._run.journal.tell(
            "screened_out" if is_out else "screened",
            tactic=idea.tactic,
            hypothesis=idea.hypothesis,
            plan=idea.plan.sha256,
            base=context.plan.sha256,
            speedup=found,
        )
        return found

    def _speedup(self, base: Plan, other: Plan) -> float | None:
        engines = [self._engine(plan) for plan in (base, other)]
        if engines[0] is None or engines[1] is None:
            return None
        target = self._run.subject.target
        logs = []
        for scenario in target.workload.scenario:
            totals = [0.0, 0.0]
            mine = steps_of(target, scenario, base)
            theirs = steps_of(target, scenario, other)
            for held, changed in zip(mine, theirs, strict=True):
                if held == changed and _is_alike(base, other, held.step):
                    seconds = self._seconds(base, engines[0], held.step, held.shape)
                    pair = (seconds, seconds)
                else:
                    pair = self._in_turn(
                        (base, engines[0], held.shape),
                        (other, engines[1], changed.shape),
                        held.step,
                    )
                if pair[0] is None or pair[1] is None:
                    return None
                totals[0] += held.times * pair[0]
                totals[1] += changed.times * pair[1]
            logs.append(math.log(totals[0] / totals[1]))
        return math.exp(sum(logs) / len(logs))

    def _in_turn(
        self,
        first: tuple[Plan, Path, StepShape],
        second: tuple[Plan, Path, StepShape],
        step: StepName,
    ) -> tuple[float | None, float | None]:
        """Both, in fresh processes, in the order ABBA; the better of two each: noise only adds."""
        best: list[float | None] = [None, None]
        for which in (0, 1, 1, 0):
            plan, engine, shape = (first, second)[which]
            seconds = self._time_step(engine, step, shape)
            if seconds is None:
                return None, None
            held = best[which]
            best[which] = seconds if held is None else min(held, seconds)
            self._known[plan.sha256, step, shape] = seconds
        return best[0], best[1]

    def _seconds(self, plan: Plan, engine: Path, step: StepName, shape: StepShape) -> float | None:
        key = (plan.sha256, step, shape)
        if key not in self._known:
            seconds = self._time_step(engine, step, shape)
            if seconds is None:
                return None
            self._known[key] = seconds
        return self._known[key]

    def _engine(self, plan: Plan) -> Path | None:
        digest = plan.sha256
        if digest not in self._engines:
            place = self._run.folder.work / "screen" / digest[:16]
            engine = place / "engine"
            # An older process of the run may have built it.
            refused = None
            if not engine.exists():
                refused = self._run.bench.build(
                    self._run.subject, plan, place / "candidate", engine
                )
            self._engines[digest] = engine if refused is None else None
        return self._engines[digest]


def _is_alike(base: Plan, other: Plan, step: StepName) -> bool:
    """Whether a step takes the same time in both plans."""
    return base.steps[step] == other.steps[step] and all(
        getattr(base, name) == getattr(other, name)
        for name in ("threads", "pool", "memory", "cache")
    )
