"""Screening: the steps that two plans do differently, timed in turn.

What looks faster was picked for a high figure, and such figures are too high on average. So it is
timed a second time, and only the second look counts.
"""

from __future__ import annotations

import time
from pathlib import Path

from enginewright.plan import Plan
from enginewright.swarm.plan_timer import PlanTimer, TimeStep
from enginewright.swarm.run import Run
from enginewright.variation.idea import Context, Idea
from enginewright.variation.tuner import LEAST_GAIN


class MicroScreener:
    """Builds plans and times their steps, until its time is spent."""

    def __init__(self, run: Run, time_step: TimeStep, *, seconds: float) -> None:
        """`seconds`: how long one round of screening may take."""
        self._run = run
        self._timer = PlanTimer(run.subject.target, time_step, self._engine)
        self._deadline = time.monotonic() + seconds

    def has_time(self) -> bool:
        """Whether another idea may be screened."""
        return time.monotonic() < self._deadline

    def speedup(self, base: Idea | None, idea: Idea, context: Context) -> float | None:
        """Speed of the idea's plan over the context's; None if it cannot be built or run."""
        with self._run.stages.stage("screen"):
            first = found = self._timer.speedup(context.plan, idea.plan)
            if first is not None and first >= LEAST_GAIN:
                found = self._timer.speedup(context.plan, idea.plan)
        is_out = found is None or found < 1.0
        self._run.journal.tell(
            "screened_out" if is_out else "screened",
            tactic=idea.tactic,
            hypothesis=idea.hypothesis,
            plan=idea.plan.sha256,
            base=context.plan.sha256,
            first_look=first,
            speedup=found,
        )
        return found

    def _engine(self, plan: Plan) -> Path | None:
        place = self._run.folder.work / "screen" / plan.sha256[:16]
        engine = place / "engine"
        # An older process of the run may have built it.
        if engine.exists():
            return engine
        refused = self._run.bench.build(self._run.subject, plan, place / "candidate", engine)
        return engine if refused is None else None
