"""The load generator: a process of its own that sends requests and notes when what came.

`python -m enginewright.evaluation.load` reads one job a line (JSON) on standard input and writes
one result a line on standard output, until the input ends. It works against any server that speaks
OpenAI's completions and embeddings. Bytes are only stamped while they arrive, and parsed after the
request has ended, so that the generator takes little from the machine it measures on.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from typing import Any

import aiohttp

from enginewright.evaluation.answers import Arrived, Failed, read_answer
from enginewright.evaluation.load_records import (
    Answer,
    LoadJob,
    Request,
    Wave,
    answers_to_json,
    job_from_json,
)

_LARGEST_ANSWER_BYTES = 256 << 20


async def run_job(job: LoadJob) -> tuple[Answer, ...]:
    """Send every request of a job; each comes back as an answer, failed or not."""
    headers = {"Authorization": f"Bearer {job.api_key}"} if job.api_key else {}
    arrived: list[tuple[Wave, int, Request, Arrived]] = []
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=job.timeout_seconds)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers
    ) as session:
        for wave in job.waves:
            streams = [_send_all(session, job, stream) for stream in wave.streams]
            for number, held in enumerate(await asyncio.gather(*streams)):
                arrived += [(wave, number, request, answer) for request, answer in held]
    answers: list[Answer] = [
        read_answer(wave, number, request, answer) for wave, number, request, answer in arrived
    ]
    return tuple(sorted(answers, key=lambda answer: answer.id))


async def _send_all(
    session: aiohttp.ClientSession, job: LoadJob, stream: tuple[Request, ...]
) -> list[tuple[Request, Arrived]]:
    return [(request, await _send(session, job, request)) for request in stream]


async def _send(session: aiohttp.ClientSession, job: LoadJob, request: Request) -> Arrived:
    path, body = _body(job, request)
    payload = json.dumps(body).encode()
    pieces: list[tuple[float, bytes]] = []
    size_bytes = 0
    failed: Failed | None = None
    sent = time.monotonic()
    try:
        async with session.post(
            f"{job.base_url}{path}", data=payload, headers={"Content-Type": "application/json"}
        ) as response:
            while piece := await response.content.readany():
                pieces.append((time.monotonic(), piece))
                size_bytes += len(piece)
                if size_bytes > _LARGEST_ANSWER_BYTES:
                    failed = Failed("malformed", f"more than {_LARGEST_ANSWER_BYTES} bytes")
                    break
            if response.status != 200:
                text = b"".join(piece for _, piece in pieces).decode("utf-8", errors="replace")
                failed = Failed("refused", f"HTTP {response.status}: {text[:500]}")
    except TimeoutError:
        failed = Failed("timed_out", f"no end within {job.timeout_seconds:g} s")
    except (aiohttp.ClientError, OSError) as error:
        failed = Failed("connection", f"{type(error).__name__}: {error}")
    return Arrived(sent=sent, ended=time.monotonic(), pieces=pieces, failed=failed)


def _body(job: LoadJob, request: Request) -> tuple[str, dict[str, Any]]:
    if request.output_tokens == 0:
        return "/v1/embeddings", {
            "model": job.model,
            "input": list(request.texts),
            "encoding_format": "base64",
        }
    return "/v1/completions", {
        "model": job.model,
        "prompt": request.texts[0],
        "max_tokens": request.output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **job.fields,
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Serve jobs until standard input ends."""
    gc.disable()
    for line in sys.stdin:
        before = _cpu_seconds()
        answers = asyncio.run(run_job(job_from_json(json.loads(line))))
        told = json.dumps(answers_to_json(answers))
        gc.collect()
        # What reading and telling the answers took is ours too, and nobody else's.
        spent = _cpu_seconds() - before
        sys.stdout.write(f'{{"cpu_seconds": {spent!r}, "answers": {told}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main()
