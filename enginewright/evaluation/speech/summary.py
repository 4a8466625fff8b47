"""Figures of speech servers: quantiles with distribution-free intervals, ratios by rounds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from enginewright.evaluation.speech.playback import play
from enginewright.evaluation.speech.protocol import SpeechWave
from enginewright.evaluation.speech.records import SpeechAnswer
from enginewright.evaluation.statistics import estimate

_REASONS = 5


def summarise(waves: Sequence[SpeechWave]) -> dict[str, Any]:
    """For each server its figures over all prompts and by length, what failed and why; for each
    server after the first its ratios to the first.

    A server none of whose answers was whole has no figures (null), and no ratio.
    """
    names = list(dict.fromkeys(wave.server for wave in waves))
    return {
        "servers": {name: _server([w for w in waves if w.server == name]) for name in names},
        "ratios": {name: _ratios(waves, names[0], name) for name in names[1:]},
    }


def _server(waves: Sequence[SpeechWave]) -> dict[str, Any]:
    answers = [answer for wave in waves for answer in wave.answers]
    failed = [answer for answer in answers if answer.error_kind is not None]
    reasons = Counter(f"{answer.error_kind}: {answer.error}" for answer in failed)
    lengths = list(dict.fromkeys(wave.words for wave in waves))
    wall = sum(wave.wall_seconds for wave in waves)
    return {
        "requests": len(answers),
        "failed": dict(Counter(answer.error_kind for answer in failed)),
        "reasons": [text for text, _ in reasons.most_common(_REASONS)],
        "all": _figures(waves),
        "by_words": {str(n): _figures([w for w in waves if w.words == n]) for n in lengths},
        "client_cpu_share": sum(wave.client_cpu_seconds for wave in waves) / wall if wall else None,
    }


def _figures(waves: Sequence[SpeechWave]) -> dict[str, Any] | None:
    whole = [a for wave in waves for a in wave.answers if a.error_kind is None]
    if not whole:
        return None
    played = [play(answer) for answer in whole]
    factors = [(answer.ended - answer.sent) / answer.audio_seconds for answer in whole]
    first_audio = [answer.chunk_samples[0] / answer.sample_rate_hz for answer in whole]
    return {
        "ttfa_ms": _quantiles(1e3 * (a.chunk_times[0] - a.sent) for a in whole),
        "first_sound_ms": _quantiles(1e3 * (_sound(a) - a.sent) for a in whole),
        "first_chunk_audio_ms": _quantiles(1e3 * seconds for seconds in first_audio),
        "total_ms": _quantiles(1e3 * (a.ended - a.sent) for a in whole),
        "audio_ms": _quantiles(1e3 * a.audio_seconds for a in whole),
        "real_time_factor": {**_quantiles(factors), "mean": statistics.fmean(factors)},
        # All the time counts, also that of answers that failed; their audio does not.
        "audio_seconds_per_s": sum(a.audio_seconds for a in whole)
        / sum(wave.wall_seconds for wave in waves),
        "longest_stall_ms": _quantiles(1e3 * p.longest_stall_seconds for p in played),
        "stalled_requests": sum(p.stalls > 0 for p in played),
    }


def _sound(answer: SpeechAnswer) -> float:
    # A whole answer has sound: one without it has failed as silent.
    return answer.first_sound if answer.first_sound is not None else math.inf


def _quantiles(values: Iterable[float]) -> dict[str, Any]:
    """Median and 95th percentile, each with an interval of 95 % from order statistics; an end
    that so few values cannot give is null. Least and largest too."""
    held = np.sort(np.fromiter(values, dtype=np.float64))
    found: dict[str, Any] = {"least": float(held[0]), "largest": float(held[-1])}
    for name, p in (("p50", 0.5), ("p95", 0.95)):
        interval: Any = stats.quantile_test(held, p=p).confidence_interval(0.95)
        found[name] = {
            "value": float(np.quantile(held, p)),
            "low": _finite(interval.low),
            "high": _finite(interval.high),
        }
    return found


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _ratios(waves: Sequence[SpeechWave], first: str, other: str) -> dict[str, Any] | None:
    """How many times longer the other server took, by rounds where both were whole."""
    held = {(wave.server, wave.trial, wave.words): wave for wave in waves}
    pairs = [
        (held[first, trial, words], held[other, trial, words])
        for server, trial, words in held
        if server == first and (other, trial, words) in held
    ]
    pairs = [pair for pair in pairs if all(_is_whole(wave) for wave in pair)]
    if not pairs:
        return None
    found: dict[str, Any] = {"rounds": len(pairs)}
    for name, seconds in (("ttfa", _first_audio), ("real_time_factor", _factor)):
        told = estimate([math.log(seconds(theirs) / seconds(ours)) for ours, theirs in pairs])
        found[name] = {end: math.exp(value) for end, value in told.to_json().items()}
    return found


def _is_whole(wave: SpeechWave) -> bool:
    return all(answer.error_kind is None for answer in wave.answers)


def _first_audio(wave: SpeechWave) -> float:
    return statistics.median(a.chunk_times[0] - a.sent for a in wave.answers)


def _factor(wave: SpeechWave) -> float:
    return statistics.median((a.ended - a.sent) / a.audio_seconds for a in wave.answers)
