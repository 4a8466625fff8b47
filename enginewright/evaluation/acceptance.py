"""Whether the target's criteria hold, with the intervals that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from enginewright.evaluation.floors import Floor, floor_values
from enginewright.evaluation.measurement import Measured
from enginewright.evaluation.metrics import geometric_mean
from enginewright.target import METRICS, Criterion, Target, metric_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """One criterion beside what was measured. What could not be measured does not hold."""

    metric: str
    """As in the target."""
    comparison: str
    """`>=` or `<=`."""
    goal: float
    """As in the target."""
    against: str
    """As in the target."""
    unit: str
    """Of goal and value: the metric's unit, `x` of another arm, or `share` of the floor."""
    value: float | None
    """Measured; None if that failed."""
    low: float | None
    """Lower end of its 95 % interval."""
    high: float | None
    """Upper end of its 95 % interval."""
    holds: bool
    """Whether the whole interval is on the right side of the goal."""
    why_not_measured: str | None
    """Set if there is no value."""

    def to_json(self) -> dict[str, Any]:
        """For `--json` and reports."""
        return asdict(self)


def judge_acceptance(
    target: Target, measured: Measured, floors: Mapping[str, Floor], *, champion: str
) -> list[CriterionResult]:
    """Every criterion of the target, in its order. `champion` is the arm on trial; the naive engine
    is the arm `naive`, baselines go by their names."""
    return [
        _result(criterion, *_value(criterion, target, measured, floors, champion=champion))
        for criterion in target.accept
    ]


_Interval = tuple[float, float, float]


def _value(
    criterion: Criterion,
    target: Target,
    measured: Measured,
    floors: Mapping[str, Floor],
    *,
    champion: str,
) -> tuple[_Interval | None, str, str | None]:
    """Value with interval, unit, and why there is none."""
    metric, against = criterion.metric, criterion.against
    unit = metric_rule(metric).unit
    if champion in measured.failed:
        return None, unit, measured.failed[champion]
    if against not in ("absolute", "floor"):
        if against in measured.failed:
            return None, "x", f"{against} failed: {measured.failed[against]}"
        found = measured.ratio(metric, champion, against)
        if found is None:
            return None, "x", f"{metric} of both was not measured"
        return (found.value, found.low, found.high), "x", None
    held = measured.metrics(champion).get(metric)
    if held is None:
        return None, unit, f"{metric} was not measured"
    if against == "absolute":
        return (held.value, held.low, held.high), unit, None
    bound = floor_value(metric, target, floors)
    if bound is None:
        return None, "share", f"{metric} has no floor"
    # A share is better when higher, whichever way the metric is.
    if metric_rule(metric).more_is_better:
        return (held.value / bound, held.low / bound, held.high / bound), "share", None
    return (bound / held.value, bound / held.high, bound / held.low), "share", None


def floor_value(metric: str, target: Target, floors: Mapping[str, Floor]) -> float | None:
    """Best possible value of a metric, of one scenario (`chat.ttft_ms`) or over all of them; None
    if the hardware sets no bound to it."""
    scenario, _, name = metric.rpartition(".")
    bounds = {
        held.name: floor_values(floors[held.name], held).get(name)
        for held in target.workload.scenario
        if scenario in ("", held.name)
    }
    known = [bound for bound in bounds.values() if bound is not None]
    return geometric_mean(known) if known and len(known) == len(bounds) else None


def best_values(target: Target, floors: Mapping[str, Floor]) -> dict[str, float]:
    """Bounds of every metric that has one, by name (`ttft_ms`, `chat.ttft_ms`): what
    `target.check_possible` wants."""
    values = {}
    for name, rule in METRICS.items():
        scenarios = [f"{held.name}." for held in target.workload.scenario]
        for prefix in ("", *scenarios) if rule.by_scenario else ():
            bound = floor_value(f"{prefix}{name}", target, floors)
            if bound is not None:
                values[f"{prefix}{name}"] = bound
    return values


def _result(
    criterion: Criterion, interval: _Interval | None, unit: str, why: str | None
) -> CriterionResult:
    value, low, high = interval if interval is not None else (None, None, None)
    holds = False
    if low is not None and high is not None:
        holds = low >= criterion.value if criterion.comparison == ">=" else high <= criterion.value
    comparison: Literal[">=", "<="] = criterion.comparison
    return CriterionResult(
        metric=criterion.metric,
        comparison=comparison,
        goal=criterion.value,
        against=criterion.against,
        unit=unit,
        value=value,
        low=low,
        high=high,
        holds=holds,
        why_not_measured=why,
    )
