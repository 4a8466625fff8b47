"""From bytes that came, with their times, to audio: raw PCM, WAV, or server-sent events.

Sources: OpenAI's speech route (`speech.audio.delta` events, base64); RIFF WAVE (a streamed header
may carry any length); SGLang-Omni's headers `x-sample-rate`, `x-channels`, `x-bit-depth`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass

import numpy as np

from enginewright.evaluation.sending import Arrived
from enginewright.evaluation.speech.records import SpeechAnswer, SpeechErrorKind

AUDIBLE = 33
"""Least 16-bit value that counts as sound: -60 dB of full scale."""

Pieces = list[tuple[float, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    sample_rate_hz: int
    channels: int


class _MalformedError(Exception):
    """The bytes are not what the route promises."""


def read_speech(request: int, arrived: Arrived, sample_rate_hz: int) -> SpeechAnswer:
    """Account for one request. What cannot be read is an answer with an error, no exception.

    `sample_rate_hz` is taken where the server does not tell.
    """
    kind: SpeechErrorKind | None = arrived.failed.kind if arrived.failed else None
    what = arrived.failed.what if arrived.failed else None
    told = _Format(sample_rate_hz=sample_rate_hz, channels=1)
    samples: Pieces = []
    refused = arrived.failed is not None and arrived.failed.kind == "refused"
    if not refused:
        try:
            told, samples = _samples(arrived, told)
        except (_MalformedError, ValueError, KeyError, TypeError, struct.error) as error:
            if kind is None:
                kind, what = "malformed", f"{type(error).__name__}: {error}"[:500]
    frame_bytes = 2 * told.channels
    times: list[float] = []
    counts: list[int] = []
    first_sound: float | None = None
    held = b""
    done = 0
    for time, piece in samples:
        held += piece
        frames = len(held) // frame_bytes - done
        if frames == 0:
            continue
        new = np.frombuffer(held, "<i2", frames * told.channels, done * frame_bytes)
        if first_sound is None and int(np.abs(new.astype(np.int32)).max()) >= AUDIBLE:
            first_sound = time
        times.append(time)
        counts.append(frames)
        done += frames
    if kind is None and not times:
        kind, what = "empty", "no audio came"
    elif kind is None and len(held) % frame_bytes:
        kind, what = "malformed", f"the audio ends within a sample, after {len(held)} bytes"
    elif kind is None and first_sound is None:
        kind, what = "silent", f"{done} samples, none of -60 dB or more"
    return SpeechAnswer(
        id=request,
        sent=arrived.sent,
        ended=arrived.ended,
        sample_rate_hz=told.sample_rate_hz,
        chunk_times=tuple(times),
        chunk_samples=tuple(counts),
        first_sound=first_sound,
        sha256=hashlib.sha256(held).hexdigest(),
        finish_reason=arrived.headers.get("x-finish-reason"),
        error_kind=kind,
        error=what,
    )


def _samples(arrived: Arrived, otherwise: _Format) -> tuple[_Format, Pieces]:
    """Format and bytes of 16-bit little-endian samples, each with its time."""
    told = _of_headers(arrived.headers, otherwise)
    pieces = arrived.pieces
    if arrived.headers.get("content-type", "").startswith("text/event-stream"):
        pieces = _of_events(pieces)
    if b"".join(piece for _, piece in pieces[:16])[:4] == b"RIFF":
        return _of_wave(pieces)
    return told, pieces


def _of_headers(headers: dict[str, str], otherwise: _Format) -> _Format:
    depth = headers.get("x-bit-depth", "16")
    if depth != "16":
        raise _MalformedError(f"x-bit-depth {depth}; only 16 is read")
    rate = int(headers.get("x-sample-rate", otherwise.sample_rate_hz))
    channels = int(headers.get("x-channels", otherwise.channels))
    return _checked(rate, channels)


def _checked(rate: int, channels: int) -> _Format:
    if not 1000 <= rate <= 1_000_000 or not 1 <= channels <= 64:
        raise _MalformedError(f"{rate} samples a second in {channels} channels")
    return _Format(sample_rate_hz=rate, channels=channels)


def _of_events(pieces: Pieces) -> Pieces:
    """The audio of events, each with the time of the piece that completed its line."""
    found: Pieces = []
    rest = b""
    is_done = False
    for time, piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = line.strip()
            if not text.startswith(b"data:"):
                continue
            data = text[5:].strip()
            if data == b"[DONE]":
                is_done = True
                continue
            event = json.loads(data)
            if not isinstance(event, dict):
                raise _MalformedError(f"an event that is no object: {event!r:.100}")
            if event.get("error"):
                raise _MalformedError(f"an error within the stream: {event['error']}")
            audio = event.get("audio")
            if audio:
                found.append((time, base64.b64decode(audio, validate=True)))
            is_done |= event.get("type") == "speech.audio.done"
    if not is_done:
        raise _MalformedError("the stream ended without speech.audio.done or [DONE]")
    return found


def _of_wave(pieces: Pieces) -> tuple[_Format, Pieces]:
    """What follows the `data` header; lengths that a streaming server cannot know are not read."""
    head = b""
    for number, (time, piece) in enumerate(pieces):
        head += piece
        found = _wave_header(head)
        if found is not None:
            told, start = found
            return told, [(time, head[start:]), *pieces[number + 1 :]]
    raise _MalformedError("a WAV header without data")


def _wave_header(head: bytes) -> tuple[_Format, int] | None:
    """Format and offset of the samples; None while the header is not whole."""
    told: _Format | None = None
    at = 12
    while len(head) >= at + 8:
        name, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"data":
            if told is None:
                raise _MalformedError("WAV data before its format")
            return told, at + 8
        if len(head) < at + 8 + size:
            if size > 1 << 20:
                raise _MalformedError(f"WAV chunk {name!r} of {size} bytes before the data")
            return None
        if name == b"fmt ":
            code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", head, at + 8)
            if code not in (1, 0xFFFE) or bits != 16:
                raise _MalformedError(f"WAV format {code} of {bits} bits; only 16-bit PCM is read")
            told = _checked(rate, channels)
        at += 8 + size + size % 2
    return None
