"""What the load generator is asked, and what it saw: records that travel as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Phase = Literal["warm_up", "timed", "together"]
CountedBy = Literal["ids", "usage", "chunks", "nothing"]
ErrorKind = Literal["refused", "timed_out", "connection", "malformed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to send."""

    id: int
    """Unique in its job."""
    texts: tuple[str, ...]
    """The prompt, or the texts to embed."""
    output_tokens: int
    """Tokens to generate; 0 asks for embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Streams that start together; the next wave waits until all are done."""

    scenario: str
    """Whose requests these are."""
    phase: Phase
    """What they are for; only `timed` ones count."""
    streams: tuple[tuple[Request, ...], ...]
    """Each stream sends its requests one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """A server and what to send to it."""

    base_url: str
    """Without `/v1`."""
    model: str
    """Model name of every request."""
    api_key: str | None
    """Bearer token, if it wants one."""
    fields: dict[str, Any]
    """Added to every completion's body."""
    timeout_seconds: float
    """Longest time of one request."""
    waves: tuple[Wave, ...]
    """In order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request, accounted for. Times are seconds of the load generator's monotonic clock."""

    id: int
    """Of the request."""
    scenario: str
    """Of its wave."""
    phase: Phase
    """Of its wave."""
    stream: int
    """Index in its wave."""
    sent: float
    """When it was sent."""
    ended: float
    """When its last byte had come, or it failed."""
    chunk_times: tuple[float, ...]
    """When each chunk with tokens came."""
    chunk_tokens: tuple[int, ...]
    """Tokens of each of those chunks."""
    counted_by: CountedBy
    """Where the number of tokens is from; by `chunks`, each is taken for one token."""
    token_ids: tuple[int, ...] | None
    """Ids emitted; None if the server does not tell."""
    text: str
    """Text emitted."""
    finish_reason: str | None
    """As the server says."""
    prompt_tokens: int | None
    """As the server counts."""
    completion_tokens: int | None
    """As counted here, or as the server counts if it tells no ids."""
    claimed_tokens: int | None
    """As the server counts, whatever was counted here."""
    embeddings: tuple[tuple[float, ...], ...] | None
    """One for each text."""
    error_kind: ErrorKind | None
    """None if all went well."""
    error: str | None
    """What went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Every request of a job."""

    answers: tuple[Answer, ...]
    """In order of their ids."""
    cpu_seconds: float
    """Processor time of the load generator during the job."""


def job_to_json(job: LoadJob) -> dict[str, Any]:
    """Ready for `json.dumps`."""
    return asdict(job)


def job_from_json(held: dict[str, Any]) -> LoadJob:
    """The job that `job_to_json` wrote."""
    waves = tuple(
        Wave(
            scenario=wave["scenario"],
            phase=wave["phase"],
            streams=tuple(
                tuple(
                    Request(
                        id=request["id"],
                        texts=tuple(request["texts"]),
                        output_tokens=request["output_tokens"],
                    )
                    for request in stream
                )
                for stream in wave["streams"]
            ),
        )
        for wave in held["waves"]
    )
    return LoadJob(**{**held, "waves": waves})


def answers_to_json(answers: tuple[Answer, ...]) -> list[dict[str, Any]]:
    """Ready for `json.dumps`: the `answers` of a result."""
    return [asdict(answer) for answer in answers]


def result_from_json(held: dict[str, Any]) -> LoadResult:
    """The result that the load generator wrote."""
    return LoadResult(
        answers=tuple(_answer(answer) for answer in held["answers"]),
        cpu_seconds=held["cpu_seconds"],
    )


def _answer(held: dict[str, Any]) -> Answer:
    ids, embeddings = held["token_ids"], held["embeddings"]
    return Answer(
        **{
            **held,
            "chunk_times": tuple(held["chunk_times"]),
            "chunk_tokens": tuple(held["chunk_tokens"]),
            "token_ids": None if ids is None else tuple(ids),
            "embeddings": None
            if embeddings is None
            else tuple(tuple(values) for values in embeddings),
        }
    )
