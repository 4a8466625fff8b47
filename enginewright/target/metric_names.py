"""The metrics that an evaluation gives: names, units, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRule:
    """One metric."""

    unit: str
    """Its unit."""
    more_is_better: bool
    """Whether a larger value is the better one."""
    by_scenario: bool
    """Whether each scenario has one of its own besides the overall figure."""
    kinds: frozenset[str]
    """`decoder`, `encoder`: which models have it."""


def _rule(unit: str, *, more: bool, by_scenario: bool = True, kinds: str) -> MetricRule:
    return MetricRule(
        unit=unit, more_is_better=more, by_scenario=by_scenario, kinds=frozenset(kinds.split())
    )


METRICS: dict[str, MetricRule] = {
    "request_ms": _rule("ms", more=False, kinds="decoder encoder"),
    "ttft_ms": _rule("ms", more=False, kinds="decoder"),
    "decode_tokens_per_s": _rule("tokens/s", more=True, kinds="decoder"),
    "prefill_tokens_per_s": _rule("tokens/s", more=True, kinds="decoder"),
    "throughput_tokens_per_s": _rule("tokens/s", more=True, kinds="decoder"),
    "texts_per_s": _rule("texts/s", more=True, kinds="encoder"),
    "floor_share": _rule("", more=True, by_scenario=False, kinds="decoder encoder"),
    "peak_memory_mib": _rule("MiB", more=False, by_scenario=False, kinds="decoder encoder"),
    "start_seconds": _rule("s", more=False, by_scenario=False, kinds="decoder encoder"),
    "regret_nats": _rule("nats", more=False, by_scenario=False, kinds="decoder"),
    "regret_mean_nats": _rule("nats", more=False, by_scenario=False, kinds="decoder"),
    "cosine": _rule("", more=True, by_scenario=False, kinds="encoder"),
}
"""Every metric, by name. An overall figure is the geometric mean over the scenarios."""


def metric_rule(name: str) -> MetricRule:
    """The rule of a metric, overall or of a scenario (`chat.ttft_ms`)."""
    return METRICS[name.rsplit(".", 1)[-1]]
