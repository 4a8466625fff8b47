"""The judge's end of a load generator: starts its process, hands it jobs, takes results."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Self

from enginewright.errors import InternalError
from enginewright.evaluation.load_records import (
    LoadJob,
    LoadResult,
    job_to_json,
    result_from_json,
)
from enginewright.evaluation.running_server import die_with_parent, log_tail


class JobProcess:
    """One process that answers jobs, a line each. Owns the process until `close`."""

    def __init__(self, module: str, log: Path) -> None:
        """Start `python -m module`; its standard error goes to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, job: dict[str, Any], requests: int, seconds: float) -> dict[str, Any]:
        """Hand a job over and wait for its result, which has an answer for each of `requests`.

        Raises: InternalError if the process fails or takes longer than `seconds`: it accounts
            for every request.
        """
        deadline = time.monotonic() + seconds
        try:
            _pipe(self._process.stdin).write((json.dumps(job) + "\n").encode())
            _pipe(self._process.stdin).flush()
            result: dict[str, Any] = json.loads(self._read_line(deadline))
            answered = len(result["answers"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InternalError(
                f"the load generator failed: {error!r}; its log ends: {log_tail(self._log)}",
                hint="This is a bug.",
            ) from error
        if answered != requests:
            raise InternalError(
                f"the load generator accounts for {answered} of {requests} requests",
                hint="This is a bug.",
            )
        return result

    def _read_line(self, deadline: float) -> bytes:
        pipe = _pipe(self._process.stdout)
        held = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not held.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise OSError("no result in time")
                piece = os.read(pipe.fileno(), 1 << 20)
                if not piece:
                    raise OSError(f"it ended with {self._process.wait()}")
                held += piece
        return bytes(held)

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # A job that could not be delivered has been reported already.
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


class LoadGenerator(JobProcess):
    """The process that sends all requests of a trial."""

    def __init__(self, log: Path) -> None:
        """Start the process; its standard error goes to `log`."""
        super().__init__("enginewright.evaluation.load", log)

    def run(self, job: LoadJob) -> LoadResult:
        """Send a job's requests and wait for all of them.

        Raises: InternalError if the load generator itself fails.
        """
        requests = sum(len(stream) for wave in job.waves for stream in wave.streams)
        longest = [max((len(stream) for stream in wave.streams), default=0) for wave in job.waves]
        seconds = 30.0 + job.timeout_seconds * sum(longest)
        return result_from_json(self.ask(job_to_json(job), requests, seconds))


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise InternalError("the load generator has no pipe", hint="This is a bug.")
    return pipe
