"""One request on its way: sent, and its bytes stamped as they come.

Bytes are only stamped while they arrive, and parsed after the request has ended, so that a load
generator takes little from the machine it measures on.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from enginewright.evaluation.load_records import ErrorKind

_LARGEST_ANSWER_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Failed:
    """A request without a whole answer."""

    kind: ErrorKind
    """What failed."""
    what: str
    """The particulars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Bytes of one answer."""

    sent: float
    """When the request was sent."""
    ended: float
    """When the last byte had come, or it failed."""
    headers: dict[str, str]
    """Of the response, names in lower case; empty if none came."""
    pieces: list[tuple[float, bytes]]
    """Bytes with the times they came at."""
    failed: Failed | None
    """What went wrong on the way."""


async def post(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], timeout_seconds: float
) -> Arrived:
    """Send one request and wait for its end, which `timeout_seconds` of the session bounds.

    Raises nothing: what goes wrong is in the answer.
    """
    payload = json.dumps(body).encode()
    pieces: list[tuple[float, bytes]] = []
    headers: dict[str, str] = {}
    size_bytes = 0
    failed: Failed | None = None
    sent = time.monotonic()
    try:
        async with session.post(
            url, data=payload, headers={"Content-Type": "application/json"}
        ) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
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
        failed = Failed("timed_out", f"no end within {timeout_seconds:g} s")
    except (aiohttp.ClientError, OSError) as error:
        failed = Failed("connection", f"{type(error).__name__}: {error}")
    return Arrived(sent=sent, ended=time.monotonic(), headers=headers, pieces=pieces, failed=failed)


def answer_lines(answer: Callable[[str], Awaitable[str]]) -> None:
    """Read jobs from standard input, one a line, until it ends; `answer` gives the JSON of the
    answers. Each result is a line too: `{"cpu_seconds": …, "answers": …}`."""
    gc.disable()
    for line in sys.stdin:
        before = _cpu_seconds()
        told = asyncio.run(_awaited(answer(line)))
        gc.collect()
        # What reading and telling the answers took is ours too, and nobody else's.
        spent = _cpu_seconds() - before
        sys.stdout.write(f'{{"cpu_seconds": {spent!r}, "answers": {told}}}\n')
        sys.stdout.flush()


async def _awaited(told: Awaitable[str]) -> str:
    return await told


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
