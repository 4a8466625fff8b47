"""Criteria that cannot hold, or mean nothing, are refused before anything is measured."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from enginewright.errors import TargetError
from enginewright.target.lines import KeyPath, Places
from enginewright.target.metric_names import METRICS, metric_rule
from enginewright.target.records import Criterion, Target

_ARMS = ("absolute", "naive", "floor")
_OF_FLOOR = (
    "request_ms",
    "ttft_ms",
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    "throughput_tokens_per_s",
    "texts_per_s",
)
_MAY_BE_ZERO = ("regret_nats", "regret_mean_nats")
_ONLY_ABSOLUTE = ("floor_share", "regret_nats", "regret_mean_nats", "cosine")


def check_criteria(target: Target, places: Places) -> None:
    """Check every criterion, scenario and baseline of a target against each other.

    Raises: TargetError naming file, line, field and value.
    """
    _check_scenarios(target, places)
    _check_baselines(target, places)
    known = known_metrics(target)
    arms = [*_ARMS, *(baseline.name for baseline in target.baseline)]
    for number, criterion in enumerate(target.accept):
        path: KeyPath = ("accept", number)
        if criterion.metric not in known:
            raise _refusal(
                places, (*path, "metric"), f"is {criterion.metric!r}",
                _nearest(criterion.metric, known),
            )  # fmt: skip
        if criterion.against not in arms:
            raise _refusal(
                places, (*path, "against"),
                f"is {criterion.against!r}; expected one of {', '.join(arms)}",
                "name a baseline of this file, or leave it out for an absolute goal",
            )  # fmt: skip
        _check_comparison(criterion, path, places)
        _check_against(target, criterion, path, places)
    _check_pairs(target, places)
    _check_numerics(target, places)


def check_possible(target: Target, best_values: Mapping[str, float], source: str) -> None:
    """Whether every absolute criterion lies within what this machine allows. `best_values` are the
    bounds by metric (`ttft_ms`, `chat.ttft_ms`); metrics without a bound are absent.

    Raises: TargetError naming the criterion and the bound.
    """
    for number, criterion in enumerate(target.accept):
        bound = best_values.get(criterion.metric)
        if criterion.against != "absolute" or bound is None:
            continue
        rule = metric_rule(criterion.metric)
        is_beyond = criterion.value > bound if rule.more_is_better else criterion.value < bound
        if is_beyond:
            raise TargetError(
                f"{source}: `accept.{number}.value` is {criterion.value:g}: impossible here, where "
                f"bandwidth and arithmetic allow {criterion.metric} of {bound:.4g} {rule.unit} at "
                "best",
                hint='ask for a share of the floor instead: against = "floor", value = 0.5',
            )


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


def _refusal(places: Places, path: KeyPath, what: str, hint: str | None) -> TargetError:
    field = ".".join(str(part) for part in path)
    return TargetError(f"{places.at(path)}: `{field}` {what}", hint=hint)


def _nearest(name: str, known: list[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{found[0]}`?" if found else f"known: {', '.join(known)}"


def _check_scenarios(target: Target, places: Places) -> None:
    scenarios = target.workload.scenario
    names = [scenario.name for scenario in scenarios]
    outputs = [scenario.output_tokens for scenario in scenarios]
    for number, scenario in enumerate(scenarios):
        path: KeyPath = ("workload", "scenario", number)
        if scenario.name in names[:number]:
            raise _refusal(
                places, (*path, "name"), f"is {scenario.name!r} twice", "rename one of them"
            )
        if any(outputs) and not scenario.output_tokens:
            raise _refusal(
                places, path, "generates no tokens, but another scenario does",
                "output_tokens > 0 everywhere for a decoder, nowhere for an encoder",
            )  # fmt: skip
        if scenario.batch > 1 and scenario.output_tokens:
            raise _refusal(
                places, (*path, "batch"), f"is {scenario.batch}, and the scenario generates tokens",
                "use `streams` for several generations at once",
            )  # fmt: skip
    kind = "encoder" if target.is_encoder else "decoder"
    objective = target.workload.objective
    if kind not in METRICS[objective].kinds:
        raise _refusal(
            places, ("workload", "objective"), f"is {objective!r}, which an {kind} does not have",
            "use request_ms",
        )  # fmt: skip
    if objective == "decode_tokens_per_s" and 1 in outputs:
        raise _refusal(
            places, ("workload", "objective"),
            "is 'decode_tokens_per_s', but a scenario emits a single token, which has none",
            "give every scenario at least 2 output_tokens, or use request_ms",
        )  # fmt: skip


def _check_baselines(target: Target, places: Places) -> None:
    names = [baseline.name for baseline in target.baseline]
    for number, baseline in enumerate(target.baseline):
        path: KeyPath = ("baseline", number)
        if baseline.name in names[:number]:
            raise _refusal(
                places, (*path, "name"), f"is {baseline.name!r} twice", "rename one of them"
            )
        if baseline.name in (*_ARMS, "champion"):
            raise _refusal(
                places, (*path, "name"), f"may not be {baseline.name!r}", "choose another name"
            )
        if (baseline.url is None) == (baseline.command is None):
            raise _refusal(
                places, path, f"({baseline.name}) needs either `url` or `command`",
                "a URL of a running server, or a command that starts one",
            )  # fmt: skip
        if baseline.url is not None and not baseline.url.startswith(("http://", "https://")):
            raise _refusal(places, (*path, "url"), f"is {baseline.url!r}", "write http://HOST:PORT")
        if baseline.command is not None and not any("{port}" in part for part in baseline.command):
            raise _refusal(
                places, (*path, "command"), "has no {port}",
                "put {port} where the server takes the port that it shall listen on",
            )  # fmt: skip


def _check_comparison(criterion: Criterion, path: KeyPath, places: Places) -> None:
    rule = metric_rule(criterion.metric)
    if criterion.against == "floor":
        if criterion.comparison != ">=":
            raise _refusal(
                places, (*path, "comparison"),
                f"is {criterion.comparison!r}, but more of the floor is better", "use >=",
            )  # fmt: skip
        return
    if (criterion.comparison == ">=") != rule.more_is_better:
        better = "more" if rule.more_is_better else "less"
        raise _refusal(
            places, (*path, "comparison"),
            f"is {criterion.comparison!r}, but {better} {criterion.metric} is better",
            f"use {'>=' if rule.more_is_better else '<='}",
        )  # fmt: skip


def _check_against(target: Target, criterion: Criterion, path: KeyPath, places: Places) -> None:
    name = criterion.metric.rpartition(".")[2]
    value, against = criterion.value, criterion.against
    if value <= 0 and name not in _MAY_BE_ZERO:
        raise _refusal(places, (*path, "value"), f"is {value}; expected more than 0", None)
    if value > 1 and (name == "floor_share" or against == "floor"):
        raise _refusal(
            places, (*path, "value"), f"is {value}: no engine is faster than the floor",
            "a share of the floor lies between 0 and 1",
        )  # fmt: skip
    if value > 1 and name == "cosine":
        raise _refusal(places, (*path, "value"), f"is {value}; a cosine is at most 1", None)
    if against == "floor" and name not in _OF_FLOOR:
        raise _refusal(
            places, (*path, "against"), f"is 'floor', but {criterion.metric} has none",
            f"the floor bounds {', '.join(_OF_FLOOR)}",
        )  # fmt: skip
    if against != "absolute" and name in _ONLY_ABSOLUTE:
        raise _refusal(
            places, (*path, "against"), f"is {against!r}, but {criterion.metric} stands for itself",
            'leave `against` out, or write "absolute"',
        )  # fmt: skip
    remote = {baseline.name for baseline in target.baseline if baseline.url is not None}
    if against in remote and not METRICS[name].by_scenario:
        raise _refusal(
            places, (*path, "against"),
            f"is {against!r}, of which only a URL is known: its {name} cannot be measured",
            "give the baseline a `command` instead of a `url`",
        )  # fmt: skip


def _check_pairs(target: Target, places: Places) -> None:
    """Against the floor more is always better, so a bound from above may meet one from below."""
    for number, criterion in enumerate(target.accept):
        for earlier in target.accept[:number]:
            if (criterion.metric, criterion.against) != (earlier.metric, earlier.against):
                continue
            if criterion.comparison == earlier.comparison:
                raise _refusal(
                    places, ("accept", number),
                    f"repeats a criterion on {criterion.metric} against {criterion.against}",
                    "keep the stricter one",
                )  # fmt: skip


def _check_numerics(target: Target, places: Places) -> None:
    numerics = target.numerics
    bounds = ("cosine",) if target.is_encoder else ("regret_nats", "regret_mean_nats")
    missing = [name for name in bounds if name not in numerics.model_fields_set]
    if numerics.allow and missing:
        raise _refusal(
            places, ("numerics", "allow"),
            f"is {list(numerics.allow)} without a bound: `{missing[0]}` is missing",
            f"state `{missing[0]}`: how far outputs may move from the reference engine's",
        )  # fmt: skip
    for number, criterion in enumerate(target.accept):
        limit = {
            "regret_nats": numerics.regret_nats,
            "regret_mean_nats": numerics.regret_mean_nats,
        }.get(criterion.metric)
        if limit is not None and criterion.value > limit:
            raise _refusal(
                places, ("accept", number, "value"),
                f"is {criterion.value:g}, but [numerics] rejects all beyond {limit:g}",
                f"ask for at most {limit:g}, or raise `{criterion.metric}` in [numerics]",
            )  # fmt: skip
