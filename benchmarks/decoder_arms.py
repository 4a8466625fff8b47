"""Engines that a decoder benchmark can put side by side: each block starts every arm as a fresh
process.

`run(prompt, generate)` answers the same record for every arm: `first_token_s` (prompt sent to first
token seen) and `token_s` (gaps between later tokens), by a clock outside the measured engine where
there is a server, and inside the peer's own process where there is none (which favours the peer: it
pays for no HTTP).
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enginewright.settings import load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One request, timed."""

    first_token_s: float
    """Seconds from sending the prompt to the first token."""
    token_s: tuple[float, ...]
    """Seconds between later tokens, in order."""
    tokens: tuple[int, ...]
    """Ids that came out, greedily chosen."""


class Arm(Protocol):
    """One engine in one fresh process."""

    def run(self, prompt: list[int], generate: int) -> Generation:
        """Greedy continuation of `prompt` by exactly `generate` tokens."""

    def peak_mib(self) -> float:
        """Peak resident memory of the engine in MiB, without what a bare interpreter takes."""

    def close(self) -> None:
        """End the process and wait for it."""


class LlamaCpp:
    """The peer: `peers/llama_cpp_worker.py` in its own environment."""

    def __init__(self, python: Path, model: Path, *, threads: int, flash: str) -> None:
        worker = Path(__file__).parent / "peers" / "llama_cpp_worker.py"
        command = [str(python), str(worker), str(model), "--threads", str(threads)]
        self.process = subprocess.Popen(
            [*command, "--flash", flash],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = str(self._read()["version"])

    def _read(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"llama.cpp ended with {self.process.wait()}")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _ask(self, job: dict[str, object]) -> dict[str, object]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self._read()

    def run(self, prompt: list[int], generate: int) -> Generation:
        answer = self._ask({"prompt": prompt, "generate": generate})
        return Generation(
            first_token_s=float(answer["first_token_s"]),  # type: ignore[arg-type]
            token_s=tuple(answer["token_s"]),  # type: ignore[arg-type]
            tokens=tuple(answer["tokens"]),  # type: ignore[arg-type]
        )

    def peak_mib(self) -> float:
        answer = self._ask({"memory": True})
        return (int(answer["peak_kib"]) - int(answer["before_kib"])) / 1024  # type: ignore[call-overload,no-any-return]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def serve_command(engine: Path, checkpoint: Path) -> list[str]:
    """How to start an engine folder with `checkpoint`, or a shipped binary with its own weights."""
    if engine.is_dir():
        program = str(load_settings().engine_program)
        return [program, "serve", "--engine", str(engine), "--checkpoint", str(checkpoint)]
    return [str(engine), "serve"]


class Enginewright:
    """An engine of ours, over HTTP with streaming, as a client would see it."""

    def __init__(self, command: list[str], *, threads: int) -> None:
        # It lives as long as the server does.
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--threads", str(threads)],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"before it was ready, {self.how_it_ended()}")
        self.address = str(json.loads(line)["address"])

    def run(self, prompt: list[int], generate: int) -> Generation:
        body = {
            "prompt": prompt,
            "max_tokens": generate,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        connection = http.client.HTTPConnection(self.address, timeout=300)
        payload = json.dumps(body)
        start = time.perf_counter()
        connection.request("POST", "/v1/completions", payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.read().decode()}")
        times: list[float] = []
        tokens: list[int] = []
        while line := response.readline():
            if not line.startswith(b"data: {"):
                continue
            now = time.perf_counter()
            for choice in json.loads(line[6:])["choices"]:
                new = choice.get("token_ids") or []
                tokens += new
                times += [now] * len(new)
        connection.close()
        if len(tokens) != generate:
            raise RuntimeError(f"asked for {generate} tokens, got {len(tokens)}")
        return Generation(
            first_token_s=times[0] - start,
            token_s=tuple(b - a for a, b in itertools.pairwise(times)),
            tokens=tuple(tokens),
        )

    def how_it_ended(self) -> str:
        """Exit status and last words of a server that is gone."""
        status = self.process.wait(timeout=30)
        self.log.seek(0)
        return f"{self.process.args} ended with {status}:\n{self.log.read()[-2000:]}"

    def peak_mib(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"^VmHWM:\s+(\d+) kB", text, re.MULTILINE)
        if match is None:
            raise OSError("VmHWM is missing from /proc/PID/status")
        return int(match.group(1)) / 1024

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
