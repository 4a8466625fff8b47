"""The judge's end of the load generator: starts its process, hands it jobs, takes results."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from enginewright.errors import InternalError
from enginewright.evaluation.load_records import (
    LoadJob,
    LoadResult,
    job_to_json,
    result_from_json,
)
from enginewright.evaluation.running_server import die_with_parent, log_tail


class LoadGenerator:
    """One process that sends all requests of a trial. Owns the process until `close`."""

    def __init__(self, log: Path) -> None:
        """Start the process; its standard error goes to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "enginewright.evaluation.load"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, job: LoadJob) -> LoadResult:
        """Send a job's requests and wait for all of them.

        Raises: InternalError if the load generator itself fails: it accounts for every request.
        """
        requests = sum(len(stream) for wave in job.waves for stream in wave.streams)
        longest = [max((len(stream) for stream in wave.streams), default=0) for wave in job.waves]
        deadline = time.monotonic() + 30.0 + job.timeout_seconds * sum(longest)
        line = json.dumps(job_to_json(job)) + "\n"
        try:
            _pipe(self._process.stdin).write(line.encode())
            _pipe(self._process.stdin).flush()
            answer = self._read_line(deadline)
            result = result_from_json(json.loads(answer))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InternalError(
                f"the load generator failed: {error!r}; its log ends: {log_tail(self._log)}",
                hint="This is a bug.",
            ) from error
        if len(result.answers) != requests:
            raise InternalError(
                f"the load generator accounts for {len(result.answers)} of {requests} requests",
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


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise InternalError("the load generator has no pipe", hint="This is a bug.")
    return pipe
