"""Metrics and numbers in words."""

from __future__ import annotations

from enginewright.delivery.report.material import Estimate
from enginewright.target.metric_names import METRICS

_WORDS = {
    "ttft_ms": "Time to first token",
    "decode_tokens_per_s": "Decode",
    "prefill_tokens_per_s": "Prefill",
    "throughput_tokens_per_s": "Throughput",
    "request_ms": "Whole request",
    "texts_per_s": "Texts",
    "peak_memory_mib": "Peak memory",
    "start_seconds": "Start",
    "floor_share": "Share of the floor",
    "regret_nats": "Worst regret of a token",
    "regret_mean_nats": "Mean regret",
    "cosine": "Least cosine with the reference",
}
_MINUS = "\N{MINUS SIGN}"


def metric_label(metric: str) -> str:
    """`chat.ttft_ms` as `Time to first token (chat), ms`; an unknown metric as it is."""
    scenario, _, quantity = metric.rpartition(".")
    if quantity not in _WORDS:
        return metric
    where = f" ({scenario})" if scenario else ""
    unit = METRICS[quantity].unit if quantity in METRICS else ""
    return f"{_WORDS[quantity]}{where}" + (f", {unit}" if unit else "")


def is_lower_better(metric: str) -> bool:
    """Times, memory and regret; throughputs and shares are the other way round."""
    return not METRICS[metric.rsplit(".", 1)[-1]].more_is_better


def number(value: float) -> str:
    """Three significant digits, thousands apart: 0.123, 12.3, 1,234."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        text = f"{size:,.0f}"
    elif size >= 10:
        text = f"{size:.1f}"
    elif size >= 1:
        text = f"{size:.2f}"
    else:
        text = f"{size:.3g}"
    return f"{_MINUS}{text}" if value < 0 else text


def interval(low: float | None, high: float | None, *, percent: bool = False) -> str:
    """`1.20 to 1.34`, or nothing if there is none."""
    if low is None or high is None:
        return ""
    if percent:
        return f"{low:.0%} to {high:.0%}"
    return f"{number(low)} to {number(high)}"


def ratio(value: float) -> str:
    """A factor: 2.41×."""
    return f"{number(value)}\N{MULTIPLICATION SIGN}"


def improvement(metric: str, before: Estimate, after: Estimate) -> float | None:
    """How many times better `after` is; None if either is not positive, or nobody says which way is
    better."""
    if metric.rsplit(".", 1)[-1] not in METRICS:
        return None
    if before.value <= 0 or after.value <= 0:
        return None
    faster = after.value / before.value
    return 1 / faster if is_lower_better(metric) else faster


def duration(nanoseconds: float) -> str:
    """Nanoseconds in a fitting unit."""
    for limit, scale, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if nanoseconds < limit:
            return f"{number(nanoseconds / scale)} {unit}"
    return f"{number(nanoseconds / 1e9)} s"
