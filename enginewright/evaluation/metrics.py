"""From answers to figures: one value of each metric for each pass of an arm over the workload."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from enginewright.errors import InternalError
from enginewright.evaluation.floors import Floor
from enginewright.evaluation.load_records import Answer
from enginewright.evaluation.passes import Pass
from enginewright.target import METRICS, Scenario, Target


def scenario_metrics(scenario: Scenario, answers: Sequence[Answer]) -> dict[str, float]:
    """The metrics of one scenario from its timed answers, every one of them whole.

    Of several requests the geometric mean counts. Decoding counts from the chunk after the first
    that has tokens; a request of one token has no decode speed.
    """
    if not answers:
        raise InternalError(f"scenario {scenario.name}: no answers", hint="This is a bug.")
    start = min(answer.sent for answer in answers)
    wall = max(answer.ended for answer in answers) - start
    request = [answer.ended - answer.sent for answer in answers]
    values = {"request_ms": 1e3 * geometric_mean(request)}
    if scenario.output_tokens == 0:
        values["texts_per_s"] = len(answers) * scenario.batch / wall
        return values
    first = [answer.chunk_times[0] - answer.sent for answer in answers]
    values["ttft_ms"] = 1e3 * geometric_mean(first)
    values["prefill_tokens_per_s"] = scenario.prompt_tokens / geometric_mean(first)
    values["throughput_tokens_per_s"] = (
        sum(answer.completion_tokens or 0 for answer in answers) / wall
    )
    speeds = [speed for answer in answers if (speed := decode_tokens_per_s(answer)) is not None]
    if len(speeds) == len(answers):
        values["decode_tokens_per_s"] = geometric_mean(speeds)
    return values


def request_logs(metric: str, answers: Sequence[Answer]) -> dict[int, float] | None:
    """By id of the request, logarithm of a metric whose figure for the scenario is the geometric
    mean; None for other metrics, and where a request has none."""
    values: dict[int, float | None]
    match metric:
        case "request_ms":
            values = {held.id: held.ended - held.sent for held in answers}
        case "ttft_ms" | "prefill_tokens_per_s":
            values = {held.id: held.chunk_times[0] - held.sent for held in answers}
            if metric != "ttft_ms":
                values = {number: 1.0 / held for number, held in values.items() if held}
        case "decode_tokens_per_s":
            values = {held.id: decode_tokens_per_s(held) for held in answers}
        case _:
            return None
    logs = {number: math.log(held) for number, held in values.items() if held is not None}
    return logs if logs and len(logs) == len(answers) else None


def decode_tokens_per_s(answer: Answer) -> float | None:
    """Speed after the first chunk; None if all tokens came in one."""
    if len(answer.chunk_times) < 2:
        return None
    # By usage, chunks need not carry one token each; the first one is taken to carry one.
    total = answer.completion_tokens or 0
    later = total - (answer.chunk_tokens[0] if answer.counted_by == "ids" else 1)
    seconds = answer.chunk_times[-1] - answer.chunk_times[0]
    return later / seconds if seconds > 0 and later > 0 else None


def pass_metrics(target: Target, seen: Pass, floors: Mapping[str, Floor]) -> dict[str, float]:
    """Every metric of one pass: `scenario.metric`, `metric`, and those of the whole engine."""
    by_scenario = {
        scenario.name: scenario_metrics(
            scenario, [answer for answer in seen.answers if answer.scenario == scenario.name]
        )
        for scenario in target.workload.scenario
    }
    values = overall_metrics(target, by_scenario, floors)
    if seen.memory is not None:
        values["peak_memory_mib"] = seen.memory.peak_bytes / 2**20
    if seen.start_seconds is not None:
        values["start_seconds"] = seen.start_seconds
    return values


def overall_metrics(
    target: Target, by_scenario: Mapping[str, Mapping[str, float]], floors: Mapping[str, Floor]
) -> dict[str, float]:
    """Every metric of a pass: `scenario.metric`, and `metric` as geometric mean over scenarios."""
    values = {
        f"{scenario}.{name}": value
        for scenario, metrics in by_scenario.items()
        for name, value in metrics.items()
    }
    for name, rule in METRICS.items():
        held = [metrics[name] for metrics in by_scenario.values() if name in metrics]
        if rule.by_scenario and len(held) == len(by_scenario):
            values[name] = geometric_mean(held)
    shares = []
    for scenario in target.workload.scenario:
        metrics, floor = by_scenario[scenario.name], floors[scenario.name]
        if scenario.output_tokens == 0:
            shares.append(1e3 * floor.request_seconds / metrics["request_ms"])
        elif "decode_tokens_per_s" in metrics:
            shares.append(metrics["decode_tokens_per_s"] * floor.decode_seconds)
    if shares:
        values["floor_share"] = geometric_mean(shares)
    return values


def speedup_log(metric: str, champion: float, candidate: float) -> float:
    """Logarithm of how many times better the candidate is: positive is better."""
    ratio = math.log(candidate / champion)
    return ratio if METRICS[metric.rsplit(".", 1)[-1]].more_is_better else -ratio


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive values."""
    held = list(values)
    return math.exp(sum(math.log(value) for value in held) / len(held))
