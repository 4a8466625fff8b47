"""Criteria that cannot hold, or mean nothing, are refused before anything is measured."""

from __future__ import annotations

import difflib

from enginewright.errors import TargetError
from enginewright.target.metric_names import METRICS, metric_rule
from enginewright.target.records import Criterion, Target


def check_criteria(target: Target, path: str) -> None:
    """Check every criterion, scenario and baseline of a target against each other.

    Raises: TargetError naming the field and its value.
    """
    _check_names(target, path)
    known = known_metrics(target)
    arms = {"absolute", "naive", "floor", *(baseline.name for baseline in target.baseline)}
    for number, criterion in enumerate(target.accept):
        place = f"{path}: `accept.{number}"
        if criterion.metric not in known:
            nearest = difflib.get_close_matches(criterion.metric, known, n=1)
            hint = f"did you mean `{nearest[0]}`?" if nearest else f"known: {', '.join(known)}"
            raise TargetError(f"{place}.metric` is {criterion.metric!r}", hint=hint)
        if criterion.against not in arms:
            raise TargetError(
                f"{place}.against` is {criterion.against!r}; expected one of "
                f"{', '.join(sorted(arms))}",
                hint="name a baseline of this file, or leave it out for an absolute goal",
            )
        _check_value(criterion, place)
    _check_pairs(target, path)


def known_metrics(target: Target) -> list[str]:
    """Every metric that this target's evaluation gives."""
    kind = "encoder" if target.is_encoder else "decoder"
    names = [name for name, rule in METRICS.items() if kind in rule.kinds]
    return names + [
        f"{scenario.name}.{name}"
        for scenario in target.workload.scenario
        for name in names
        if METRICS[name].by_scenario
    ]


def _check_names(target: Target, path: str) -> None:
    for what, names in (
        ("workload.scenario", [scenario.name for scenario in target.workload.scenario]),
        ("baseline", [baseline.name for baseline in target.baseline]),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TargetError(f"{path}: `{what}` has the name {twice[0]!r} twice")
    for baseline in target.baseline:
        if baseline.name in ("absolute", "naive", "floor"):
            raise TargetError(f"{path}: a baseline may not be called {baseline.name!r}")
        if (baseline.url is None) == (baseline.command is None):
            raise TargetError(
                f"{path}: baseline `{baseline.name}` needs either `url` or `command`",
                hint="a URL of a running server, or a command that starts one",
            )
    outputs = [scenario.output_tokens for scenario in target.workload.scenario]
    if any(outputs) and not all(outputs):
        raise TargetError(
            f"{path}: some scenarios generate tokens and some do not",
            hint="output_tokens > 0 everywhere for a decoder, nowhere for an encoder",
        )
    for scenario in target.workload.scenario:
        if scenario.batch > 1 and scenario.output_tokens:
            raise TargetError(
                f"{path}: scenario `{scenario.name}` has batch {scenario.batch} and generates "
                "tokens",
                hint="use `streams` for several generations at once",
            )
    kind = "encoder" if target.is_encoder else "decoder"
    if kind not in METRICS[target.workload.objective].kinds:
        raise TargetError(
            f"{path}: `workload.objective` is {target.workload.objective!r}, which an encoder "
            "does not have",
            hint="use request_ms",
        )


def _check_value(criterion: Criterion, place: str) -> None:
    rule = metric_rule(criterion.metric)
    if criterion.value <= 0 and criterion.metric not in ("regret_nats", "regret_mean_nats"):
        raise TargetError(f"{place}.value` is {criterion.value}; expected more than 0")
    if (criterion.comparison == ">=") != rule.more_is_better:
        better = "more" if rule.more_is_better else "less"
        raise TargetError(
            f"{place}.comparison` is {criterion.comparison!r}, but {better} {criterion.metric} is "
            "better",
            hint=f"use {'>=' if rule.more_is_better else '<='}",
        )
    of_floor = criterion.metric == "floor_share" or criterion.against == "floor"
    if of_floor and rule.more_is_better and criterion.value > 1:
        raise TargetError(
            f"{place}.value` is {criterion.value}: no engine is faster than the floor",
            hint="a share of the floor lies between 0 and 1",
        )
    if criterion.against == "floor" and criterion.metric not in _OF_FLOOR:
        raise TargetError(
            f"{place}.against` is 'floor', but {criterion.metric} has none",
            hint=f"the floor bounds {', '.join(_OF_FLOOR)}",
        )
    if criterion.metric == "cosine" and criterion.value > 1:
        raise TargetError(f"{place}.value` is {criterion.value}; a cosine is at most 1")


_OF_FLOOR = ("decode_tokens_per_s", "floor_share")


def _check_pairs(target: Target, path: str) -> None:
    """Two bounds on one quantity must leave room between them."""
    bounds: dict[tuple[str, str], dict[str, float]] = {}
    for criterion in target.accept:
        sides = bounds.setdefault((criterion.metric, criterion.against), {})
        sides[criterion.comparison] = criterion.value
    for (metric, against), sides in bounds.items():
        if len(sides) == 2 and sides[">="] > sides["<="]:
            raise TargetError(
                f"{path}: {metric} against {against} must be at least {sides['>=']} and at most "
                f"{sides['<=']}: impossible"
            )
