"""What a listener would have noticed: gaps of a player that starts with the first chunk."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.evaluation.speech.records import SpeechAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """Gaps of one answer."""

    stalls: int
    """How often the player ran out of audio."""
    longest_stall_seconds: float
    """The longest of those gaps; 0 if there was none."""
    stalled_seconds: float
    """All of them together."""


def play(answer: SpeechAnswer) -> Playback:
    """Play an answer from its first chunk on; after a gap, the player waits for the next chunk."""
    heard_until = answer.chunk_times[0] if answer.chunk_times else 0.0
    gaps = []
    for time, samples in zip(answer.chunk_times, answer.chunk_samples, strict=True):
        if time > heard_until:
            gaps.append(time - heard_until)
            heard_until = time
        heard_until += samples / answer.sample_rate_hz
    return Playback(
        stalls=len(gaps), longest_stall_seconds=max(gaps, default=0.0), stalled_seconds=sum(gaps)
    )
