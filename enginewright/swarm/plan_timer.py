"""How much faster the steps of one plan are than another's: built, then timed in turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from enginewright.model import StepShape
from enginewright.plan import Plan
from enginewright.plan.contracts import StepName
from enginewright.swarm.step_timing import steps_of
from enginewright.target import Target

TimeStep = Callable[[Path, StepName, StepShape], float | None]
"""Seconds of a step of an engine; None if it fails."""
EngineOf = Callable[[Plan], Path | None]
"""The engine built from a plan; None if it does not build."""


class PlanTimer:
    """Times the steps of a target's workload. What was built or timed once is not again."""

    def __init__(self, target: Target, time_step: TimeStep, engine_of: EngineOf) -> None:
        self._target = target
        self._time_step = time_step
        self._engine_of = engine_of
        self._engines: dict[str, Path | None] = {}
        self._known: dict[tuple[str, StepName, StepShape], float] = {}

    def speedup(self, base: Plan, other: Plan) -> float | None:
        """Speed of `other` over `base`: the geometric mean over the scenarios of the ratio of their
        steps' times. None if either cannot be built or run."""
        engines = [self._engine(plan) for plan in (base, other)]
        if engines[0] is None or engines[1] is None:
            return None
        target = self._target
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
            self._engines[digest] = self._engine_of(plan)
        return self._engines[digest]


def _is_alike(base: Plan, other: Plan, step: StepName) -> bool:
    """Whether a step takes the same time in both plans."""
    return base.steps[step] == other.steps[step] and all(
        getattr(base, name) == getattr(other, name)
        for name in ("threads", "pool", "memory", "cache")
    )
