"""The least time that this machine allows for a scenario: what memory must deliver, what must be
computed."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.model import Graph, StepCost, decode_shape, prompt_shape, step_cost
from enginewright.target import Machine, Scenario, Target, threads_for

_INT8_OVER_F32 = 4.0
"""Operations of an int8 dot product over those of float32 in a register of the same width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Least times of one scenario's requests, in seconds."""

    first_seconds: float
    """To the first token; for encoders, of the whole request."""
    decode_seconds: float
    """Of each further token of a stream; 0 for encoders."""
    output_tokens: int
    """Tokens that a request generates."""

    @property
    def request_seconds(self) -> float:
        """Of a whole request."""
        return self.first_seconds + max(self.output_tokens - 1, 0) * self.decode_seconds


def scenario_floor(
    graph: Graph, scenario: Scenario, machine: Machine, *, target: Target, cached_bytes: int = 0
) -> Floor:
    """The floor of one request among the scenario's streams.

    `cached_bytes` is what an engine may keep in the processor's caches from one step to the next:
    0 gives the floor that shares are quoted of, the size of the last cache gives a bound that
    nothing real can pass. Weights are taken as read once a step for all streams.
    """
    threads = threads_for(target)
    bandwidth = machine.read_bytes_per_second(threads)
    peak = machine.peak_flops_per_second(threads)
    if "activations_q8" in target.numerics.allow:
        peak *= _INT8_OVER_F32
    value_bytes = 2 if "cache_f16" in target.numerics.allow else 4

    def seconds(cost: StepCost) -> float:
        moved = max(0, cost.bytes - cached_bytes)
        return max(moved / bandwidth, cost.flops / peak)

    if scenario.output_tokens == 0:
        cost = step_cost(graph, prompt_shape(scenario.prompt_tokens, sequences=scenario.batch))
        return Floor(first_seconds=seconds(cost), decode_seconds=0.0, output_tokens=0)
    first = step_cost(graph, prompt_shape(scenario.prompt_tokens), cache_value_bytes=value_bytes)
    middle = scenario.prompt_tokens + max(1, scenario.output_tokens // 2)
    decode = step_cost(graph, decode_shape(middle), cache_value_bytes=value_bytes)
    return Floor(
        first_seconds=seconds(first),
        decode_seconds=seconds(decode),
        output_tokens=scenario.output_tokens,
    )


def step_read_bytes(graph: Graph, target: Target) -> int:
    """Fewest bytes that a step of one of the scenarios reads over and over: weights, and what the
    cache holds. The floor's bandwidth is measured over a buffer of this size, since a model that
    fits the last cache is read from there."""
    held = []
    for scenario in target.workload.scenario:
        if scenario.output_tokens == 0:
            shape = prompt_shape(scenario.prompt_tokens, sequences=scenario.batch)
        else:
            shape = decode_shape(scenario.prompt_tokens)
        held.append(step_cost(graph, shape).bytes)
    return min(held)


def target_floors(
    graph: Graph, target: Target, machine: Machine, *, cached_bytes: int = 0
) -> dict[str, Floor]:
    """The floor of every scenario, by name."""
    return {
        scenario.name: scenario_floor(
            graph, scenario, machine, target=target, cached_bytes=cached_bytes
        )
        for scenario in target.workload.scenario
    }


def floor_values(floor: Floor, scenario: Scenario) -> dict[str, float]:
    """Best possible value of each metric that has a floor, in the metric's unit."""
    request = floor.request_seconds
    values = {"request_ms": 1e3 * request}
    if scenario.output_tokens == 0:
        values["texts_per_s"] = scenario.streams * scenario.batch / request
        return values
    values["ttft_ms"] = 1e3 * floor.first_seconds
    values["prefill_tokens_per_s"] = scenario.prompt_tokens / floor.first_seconds
    values["throughput_tokens_per_s"] = scenario.streams * scenario.output_tokens / request
    if floor.decode_seconds > 0:
        values["decode_tokens_per_s"] = 1.0 / floor.decode_seconds
    return values
