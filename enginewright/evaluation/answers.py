"""From bytes that came, with their times, to an answer: tokens, embeddings, or what is wrong."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from typing import Any

from enginewright.evaluation.load_records import Answer, CountedBy, Request, Wave
from enginewright.evaluation.sending import Arrived, Failed


@dataclass(slots=True)
class _Seen:
    """What an answer has told so far."""

    chunk_times: list[float]
    chunk_tokens: list[int]
    token_ids: list[int]
    texts: list[str]
    has_ids: bool = False
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    embeddings: tuple[tuple[float, ...], ...] | None = None
    is_done: bool = False


class _MalformedError(Exception):
    """The bytes are not what the API promises."""


def read_answer(wave: Wave, stream: int, request: Request, arrived: Arrived) -> Answer:
    """Account for one request. What cannot be read is an answer with an error, no exception."""
    seen = _Seen([], [], [], [])
    failed = arrived.failed
    try:
        if request.output_tokens:
            _read_events(arrived.pieces, seen)
            if failed is None and not seen.is_done:
                raise _MalformedError("the stream ended without [DONE]")
        elif failed is None:
            _read_embeddings(arrived.pieces, len(request.texts), seen)
    except (
        _MalformedError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        struct.error,
    ) as error:
        if failed is None:
            failed = Failed("malformed", f"{type(error).__name__}: {error}"[:500])
    usage = seen.usage or {}
    counted = usage.get("completion_tokens")
    counted_by: CountedBy = "usage"
    if not request.output_tokens:
        counted_by, counted = "nothing", None
    elif seen.has_ids:
        counted_by, counted = "ids", len(seen.token_ids)
    elif counted is None:
        counted_by, counted = "chunks", len(seen.chunk_times)
    return Answer(
        id=request.id,
        scenario=wave.scenario,
        phase=wave.phase,
        stream=stream,
        sent=arrived.sent,
        ended=arrived.ended,
        chunk_times=tuple(seen.chunk_times),
        chunk_tokens=tuple(seen.chunk_tokens),
        counted_by=counted_by,
        token_ids=tuple(seen.token_ids) if seen.has_ids else None,
        text="".join(seen.texts),
        finish_reason=seen.finish_reason,
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=counted,
        claimed_tokens=usage.get("completion_tokens"),
        embeddings=seen.embeddings,
        error_kind=failed.kind if failed else None,
        error=failed.what if failed else None,
    )


def _read_events(pieces: list[tuple[float, bytes]], seen: _Seen) -> None:
    """Server-sent events; each has the time of the piece that completed its line."""
    rest = b""
    for time, piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = line.strip()
            if not text.startswith(b"data:"):
                continue
            data = text[5:].strip()
            if data == b"[DONE]":
                seen.is_done = True
                continue
            _read_event(time, json.loads(data), seen)


def _read_event(time: float, event: dict[str, Any], seen: _Seen) -> None:
    if "error" in event:
        raise _MalformedError(f"an error within the stream: {event['error']}")
    if event.get("usage"):
        seen.usage = event["usage"]
    for choice in event.get("choices", []):
        ids = choice.get("token_ids")
        text = choice.get("text") or ""
        if ids is not None:
            seen.has_ids = True
            seen.token_ids += [int(token) for token in ids]
        tokens = len(ids) if ids is not None else int(bool(text))
        if tokens:
            seen.chunk_times.append(time)
            seen.chunk_tokens.append(tokens)
        seen.texts.append(text)
        if choice.get("finish_reason"):
            seen.finish_reason = choice["finish_reason"]


def _read_embeddings(pieces: list[tuple[float, bytes]], texts: int, seen: _Seen) -> None:
    answer = json.loads(b"".join(piece for _, piece in pieces))
    entries = sorted(answer["data"], key=lambda entry: int(entry["index"]))
    if [entry["index"] for entry in entries] != list(range(texts)):
        raise _MalformedError(f"{len(entries)} embeddings for {texts} texts")
    seen.embeddings = tuple(embedding_values(entry["embedding"]) for entry in entries)
    seen.usage = answer.get("usage")


def embedding_values(embedding: str | list[float]) -> tuple[float, ...]:
    """Values of an embedding: base64 of little-endian float32, or a list."""
    if isinstance(embedding, str):
        held = base64.b64decode(embedding, validate=True)
        return struct.unpack(f"<{len(held) // 4}f", held)
    return tuple(float(value) for value in embedding)
