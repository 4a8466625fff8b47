"""The load generator: a process of its own that sends requests and notes when what came.

`python -m enginewright.evaluation.load` reads one job a line (JSON) on standard input and writes
one result a line on standard output, until the input ends. It works against any server that speaks
OpenAI's completions and embeddings.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from enginewright.evaluation.answers import read_answer
from enginewright.evaluation.load_records import (
    Answer,
    LoadJob,
    Request,
    Wave,
    answers_to_json,
    job_from_json,
)
from enginewright.evaluation.sending import Arrived, answer_lines, post


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
    return await post(session, f"{job.base_url}{path}", body, job.timeout_seconds)


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


async def _answer(line: str) -> str:
    return json.dumps(answers_to_json(await run_job(job_from_json(json.loads(line)))))


if __name__ == "__main__":
    answer_lines(_answer)
