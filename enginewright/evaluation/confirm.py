"""The figures that are quoted: champion, naive engine and baselines on inputs never used before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from enginewright.errors import InternalError
from enginewright.evaluation.acceptance import CriterionResult, judge_acceptance
from enginewright.evaluation.audit import check_audit
from enginewright.evaluation.floors import target_floors
from enginewright.evaluation.measurement import (
    Measured,
    MeasureJob,
    MetricValue,
    measure_arms,
    require,
)

CHAMPION = "champion"
NAIVE = "naive"


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What may be claimed of a champion."""

    measured: Measured
    """Everything that was seen, by arm."""
    speedup: MetricValue
    """Of the champion over the naive engine in the objective."""
    floor_share: MetricValue | None
    """Champion's share of what this machine allows; None for a decoder that emits single tokens."""
    acceptance: list[CriterionResult]
    """The target's criteria."""
    is_within_numerics: bool
    """Whether the champion's outputs lie within the target's bounds."""
    numerics_detail: str
    """What does not, if anything."""

    @property
    def is_accepted(self) -> bool:
        """Whether every criterion holds and the outputs are right."""
        return self.is_within_numerics and all(held.holds for held in self.acceptance)

    @property
    def evidence(self) -> dict[str, Any]:
        """Everything to decide again from."""
        return {
            **self.measured.evidence,
            "acceptance": [held.to_json() for held in self.acceptance],
            "numerics": {"within": self.is_within_numerics, "detail": self.numerics_detail},
        }


def confirm(job: MeasureJob) -> Confirmation:
    """Measure the arms named `champion` and `naive`, and baselines by their names, paired.

    A baseline that fails leaves its criteria unmet, with the reason. When nothing better was found,
    the champion is the naive engine: it is measured once, and its speed-up is 1 by definition.

    Raises: EngineError if champion, naive or reference engine fail; TargetError as `measure_arms`.
    """
    measured = _measure(job)
    require(measured, NAIVE)
    require(measured, CHAMPION)
    floors = target_floors(job.graph, job.target, job.machine)
    speedup = measured.speedup(CHAMPION, NAIVE)
    if speedup is None:
        raise InternalError("champion and naive engine share no block. This is a bug.")
    is_within, detail = True, ""
    if job.oracle is not None:
        finding = check_audit(measured.audits[CHAMPION], job.target.numerics)
        is_within, detail = finding.has_passed, finding.detail
    return Confirmation(
        measured=measured,
        speedup=MetricValue(value=speedup.value, low=speedup.low, high=speedup.high, unit="x"),
        floor_share=measured.metrics(CHAMPION).get("floor_share"),
        acceptance=judge_acceptance(job.target, measured, floors, champion=CHAMPION),
        is_within_numerics=is_within,
        numerics_detail=detail,
    )


def _measure(job: MeasureJob) -> Measured:
    """An engine is never timed against itself: arms with one fingerprint are measured as one."""
    prints = {arm.name: arm.fingerprint for arm in job.arms}
    if prints.get(CHAMPION) is None or prints.get(CHAMPION) != prints.get(NAIVE):
        return measure_arms(job)
    arms = tuple(arm for arm in job.arms if arm.name != CHAMPION)
    measured = measure_arms(replace(job, arms=arms))
    same = {
        name: {**held, CHAMPION: held[NAIVE]} if NAIVE in held else held
        for name, held in (
            ("samples", measured.samples),
            ("failed", measured.failed),
            ("audits", measured.audits),
        )
    }
    return replace(measured, **same)  # type: ignore[arg-type]
