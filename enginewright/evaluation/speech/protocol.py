"""The protocol that the field quotes for speech: warm trials of prompts of three lengths, one
stream or many, first audio by the client's clock.

Source: SGLang-Omni's benchmarks (time to first audio is from the request to the first non-empty
chunk of audio; real-time factor is elapsed time over duration). Here every text is new, so that no
server answers from a cache, and the servers take turns.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from enginewright.errors import EngineError, UsageError
from enginewright.evaluation.load_generator import JobProcess
from enginewright.evaluation.sentences import text_of_words
from enginewright.evaluation.speech.records import (
    SpeechAnswer,
    SpeechJob,
    SpeechRequest,
    speech_answer_from_json,
    speech_job_to_json,
)
from enginewright.evaluation.wire import first_model

_SURE_OF_LISTING_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechServer:
    """A running server with OpenAI's speech route."""

    name: str
    """What it is called in the results."""
    base_url: str
    """Without `/v1`."""
    model: str
    """Model name of every request."""
    api_key: str | None
    """Bearer token, if it wants one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechProtocol:
    """How servers are measured."""

    trials: int = 20
    """Timed requests of each stream for each length of prompt."""
    warm_up: int = 5
    """Requests of each length before them, of one stream."""
    streams: int = 1
    """Requests at once."""
    words: tuple[int, ...] = (11, 34, 60)
    """Lengths of the texts, in words."""
    fields: dict[str, Any]
    """Added to every request's body; a field of None is left out."""
    sample_rate_hz: int = 44_100
    """Of raw PCM whose server does not tell its rate."""
    timeout_seconds: float = 120.0
    """Longest time of one request."""
    seed: int = 0
    """Of the texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechWave:
    """The answers of one server to one wave of requests."""

    server: str
    """Whose."""
    words: int
    """Of each text."""
    trial: int
    """Which round; all servers of a round of one length are compared."""
    answers: tuple[SpeechAnswer, ...]
    """One for each stream."""
    client_cpu_seconds: float
    """Processor time of the load generator."""
    wall_seconds: float
    """From the first request to the last end."""


def find_server(given: str, number: int, api_key: str | None) -> SpeechServer:
    """The server named `NAME=URL`, or `URL`.

    Raises: UsageError if that is no URL; EngineError if no server lists a model there.
    """
    name, is_named, url = given.partition("=")
    if not is_named or "://" in name:
        name, url = f"server-{number}", given
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or not name:
        raise UsageError(
            f"--speech {given!r}: expected URL or NAME=URL",
            hint="for example --speech ours=http://127.0.0.1:8000",
        )
    base_url = url.rstrip("/").removesuffix("/v1")
    try:
        model = first_model(base_url, timeout_seconds=_SURE_OF_LISTING_SECONDS, api_key=api_key)
    except EngineError as error:
        raise EngineError(
            f"--speech {name}: {error.message}", hint="start the server, or correct the address"
        ) from error
    return SpeechServer(name=name, base_url=base_url, model=model, api_key=api_key)


def measure_speech(
    servers: tuple[SpeechServer, ...],
    protocol: SpeechProtocol,
    log: Path,
    say: Callable[[str], None],
) -> list[SpeechWave]:
    """Warm every server up, then let them take turns, there and back, over all prompts.

    Raises: InternalError if the load generator fails. What a server does wrong is in the answers.
    """
    texts = random.Random(protocol.seed)
    waves: list[SpeechWave] = []
    seen: dict[str, set[str]] = {server.name: set() for server in servers}
    with JobProcess("enginewright.evaluation.speech.load", log) as client:
        for server in servers:
            say(f"warming up {server.name}")
            for words in protocol.words:
                for _ in range(protocol.warm_up):
                    text = text_of_words(texts, words)
                    heard = _wave(client, server, protocol, [text], (words, -1))
                    seen[server.name].update(answer.sha256 for answer in heard.answers)
        for trial, words, turn in _rounds(servers, protocol):
            if turn == servers[0] and words == protocol.words[0]:
                say(f"round {trial + 1} of {protocol.trials}")
            asked = [text_of_words(texts, words) for _ in range(protocol.streams)]
            wave = _wave(client, turn, protocol, asked, (words, trial))
            waves.append(_without_replays(wave, seen[turn.name]))
    return waves


def _rounds(
    servers: tuple[SpeechServer, ...], protocol: SpeechProtocol
) -> Iterator[tuple[int, int, SpeechServer]]:
    for trial in range(protocol.trials):
        for words in protocol.words:
            for server in servers if trial % 2 == 0 else servers[::-1]:
                yield trial, words, server


def _wave(
    client: JobProcess,
    server: SpeechServer,
    protocol: SpeechProtocol,
    texts: list[str],
    place: tuple[int, int],
) -> SpeechWave:
    fields = {
        "model": server.model,
        "response_format": "pcm",
        "stream": True,
        **protocol.fields,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    job = SpeechJob(
        base_url=server.base_url,
        api_key=server.api_key,
        timeout_seconds=protocol.timeout_seconds,
        sample_rate_hz=protocol.sample_rate_hz,
        requests=tuple(
            SpeechRequest(id=number, body={**fields, "input": text})
            for number, text in enumerate(texts)
        ),
    )
    began = time.monotonic()
    told = client.ask(speech_job_to_json(job), len(job.requests), 30.0 + protocol.timeout_seconds)
    answers = tuple(speech_answer_from_json(held) for held in told["answers"])
    return SpeechWave(
        server=server.name,
        words=place[0],
        trial=place[1],
        answers=answers,
        client_cpu_seconds=told["cpu_seconds"],
        wall_seconds=max((answer.ended for answer in answers), default=began)
        - min((answer.sent for answer in answers), default=began),
    )


def _without_replays(wave: SpeechWave, seen: set[str]) -> SpeechWave:
    """Audio that was heard before, for another text, was not made for this one."""
    answers = []
    for answer in wave.answers:
        if answer.error_kind is None and answer.sha256 in seen:
            answer = replace(
                answer, error_kind="replayed", error="the very samples of another text's answer"
            )
        seen.add(answer.sha256)
        answers.append(answer)
    return replace(wave, answers=tuple(answers))
