"""Bytes of speech with their times: what is heard, what is refused, what a listener notices."""

from __future__ import annotations

import base64
import json
import struct

import numpy as np
import pytest

from enginewright.evaluation.sending import Arrived
from enginewright.evaluation.speech.answers import read_speech
from enginewright.evaluation.speech.playback import play

RATE = 1000
SOUND = np.full(100, 5000, "<i2").tobytes()
SILENCE = bytes(200)


def arrived(*pieces: tuple[float, bytes], **headers: str) -> Arrived:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Arrived(sent=0.0, ended=9.0, headers=named, pieces=list(pieces), failed=None)


def test_raw_samples_count_from_the_piece_that_completes_them() -> None:
    heard = read_speech(0, arrived((1.0, SILENCE[:3]), (2.0, SILENCE[3:]), (3.0, SOUND)), RATE)
    assert heard.error is None
    assert heard.chunk_times == (1.0, 2.0, 3.0)
    assert heard.chunk_samples == (1, 99, 100)
    assert heard.first_sound == 3.0
    assert heard.audio_seconds == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([], "empty"),
        ([(1.0, SILENCE)], "silent"),
        ([(1.0, SOUND + b"x")], "malformed"),
    ],
)
def test_what_is_no_speech_is_an_error(pieces: list[tuple[float, bytes]], kind: str) -> None:
    assert read_speech(0, arrived(*pieces), RATE).error_kind == kind


def test_a_streamed_wave_header_is_no_audio() -> None:
    fmt = struct.pack("<HHIIHH", 1, 2, 8000, 32000, 4, 16)
    head = b"RIFF\xff\xff\xff\xffWAVEfmt " + struct.pack("<I", 16) + fmt + b"data\xff\xff\xff\xff"
    heard = read_speech(0, arrived((1.0, head[:20]), (2.0, head[20:]), (3.0, SOUND)), RATE)
    assert heard.error is None
    assert (heard.sample_rate_hz, heard.chunk_times, heard.chunk_samples) == (8000, (3.0,), (50,))


def test_events_need_an_end() -> None:
    delta = {"type": "speech.audio.delta", "audio": base64.b64encode(SOUND).decode()}
    line = f"data: {json.dumps(delta)}\n\n".encode()
    end = b'data: {"type": "speech.audio.done"}\n\n'
    whole = arrived((1.0, line[:30]), (2.0, line[30:] + end), content_type="text/event-stream")
    cut = arrived((1.0, line), content_type="text/event-stream")
    assert read_speech(0, whole, RATE).chunk_times == (2.0,)
    assert read_speech(0, whole, RATE).error is None
    assert read_speech(0, cut, RATE).error_kind == "malformed"


def test_a_late_chunk_is_a_gap_and_an_early_one_is_none() -> None:
    heard = read_speech(0, arrived((1.0, SOUND), (1.05, SOUND), (1.5, SOUND)), RATE)
    played = play(heard)
    assert played.stalls == 1
    assert played.longest_stall_seconds == pytest.approx(0.3)
