"""The speech load generator: a process of its own that asks for speech and notes when it came.

`python -m enginewright.evaluation.speech.load` reads one job a line (JSON) on standard input and
writes one result a line on standard output, until the input ends.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

import aiohttp

from enginewright.evaluation.sending import answer_lines, post
from enginewright.evaluation.speech.answers import read_speech
from enginewright.evaluation.speech.records import (
    SpeechAnswer,
    SpeechJob,
    SpeechRequest,
    speech_job_from_json,
)


async def run_speech_job(job: SpeechJob) -> tuple[SpeechAnswer, ...]:
    """Send all requests at once; each has a connection of its own, opened for it."""
    headers = {"Authorization": f"Bearer {job.api_key}"} if job.api_key else {}
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=job.timeout_seconds)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers
    ) as session:

        async def ask(request: SpeechRequest) -> SpeechAnswer:
            url = f"{job.base_url}/v1/audio/speech"
            arrived = await post(session, url, request.body, job.timeout_seconds)
            return read_speech(request.id, arrived, job.sample_rate_hz)

        return tuple(await asyncio.gather(*map(ask, job.requests)))


async def _answer(line: str) -> str:
    job = speech_job_from_json(json.loads(line))
    return json.dumps([asdict(answer) for answer in await run_speech_job(job)])


if __name__ == "__main__":
    answer_lines(_answer)
