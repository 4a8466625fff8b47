"""What a speech server is asked, and what was heard: records that travel as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

SpeechErrorKind = Literal[
    "refused", "timed_out", "connection", "malformed", "empty", "silent", "replayed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """One text to be spoken."""

    id: int
    """Unique in its job."""
    body: dict[str, Any]
    """The JSON sent to `/v1/audio/speech`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechJob:
    """Requests to one server that start together."""

    base_url: str
    """Without `/v1`."""
    api_key: str | None
    """Bearer token, if it wants one."""
    timeout_seconds: float
    """Longest time of one request."""
    sample_rate_hz: int
    """Of raw PCM whose server does not tell its rate."""
    requests: tuple[SpeechRequest, ...]
    """One for each stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechAnswer:
    """One request, accounted for. Times are seconds of the load generator's monotonic clock."""

    id: int
    """Of the request."""
    sent: float
    """Just before the connection was opened."""
    ended: float
    """When the last byte had come, or it failed."""
    sample_rate_hz: int
    """Of the audio."""
    chunk_times: tuple[float, ...]
    """When each piece with samples came."""
    chunk_samples: tuple[int, ...]
    """Samples of one channel that each of those pieces completed."""
    first_sound: float | None
    """When the first piece came that has a sample of -60 dB of full scale or more."""
    sha256: str
    """Of the samples."""
    finish_reason: str | None
    """As the server says in `x-finish-reason`."""
    error_kind: SpeechErrorKind | None
    """None if all went well."""
    error: str | None
    """What went wrong."""

    @property
    def audio_seconds(self) -> float:
        """Duration of what was heard."""
        return sum(self.chunk_samples) / self.sample_rate_hz


def speech_job_to_json(job: SpeechJob) -> dict[str, Any]:
    """Ready for `json.dumps`."""
    return asdict(job)


def speech_job_from_json(held: dict[str, Any]) -> SpeechJob:
    """The job that `speech_job_to_json` wrote."""
    requests = tuple(SpeechRequest(**request) for request in held["requests"])
    return SpeechJob(**{**held, "requests": requests})


def speech_answer_from_json(held: dict[str, Any]) -> SpeechAnswer:
    """The answer that `dataclasses.asdict` made."""
    return SpeechAnswer(
        **{
            **held,
            "chunk_times": tuple(held["chunk_times"]),
            "chunk_samples": tuple(held["chunk_samples"]),
        }
    )
