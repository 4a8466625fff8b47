"""Engines that an encoder benchmark can put side by side: each block starts every arm as a fresh
process.

`encode(sequences)` answers the seconds it took, and the embeddings. onnxruntime is timed in its own
process around `session.run` and the pooling. Ours is timed twice: `OverHttp` from outside, JSON and
all, and `InProcess` as the steps alone, as the peer is.
"""

from __future__ import annotations

import base64
import http.client
import json
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from decoder_arms import Enginewright

from enginewright.settings import load_settings

Embeddings = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One batch, timed."""

    seconds: float
    """Seconds for the whole batch."""
    embeddings: Embeddings
    """Unit vectors, `[batch, width]`."""


class OnnxRuntime:
    """The peer: `peers/onnxruntime_worker.py` in its own environment."""

    def __init__(self, python: Path, model: Path, *, threads: int) -> None:
        worker = Path(__file__).parent / "peers" / "onnxruntime_worker.py"
        self.process = subprocess.Popen(
            [str(python), str(worker), str(model), "--threads", str(threads)],
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
            raise RuntimeError(f"onnxruntime ended with {self.process.wait()}")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def encode(self, sequences: list[list[int]]) -> Encoded:
        """Embeddings of sequences of one length."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"sequences": sequences, "repeats": 1}) + "\n")
        self.process.stdin.flush()
        answer = self._read()
        return Encoded(
            seconds=float(answer["seconds"][0]),  # type: ignore[index]
            embeddings=np.asarray(answer["embeddings"], dtype=np.float32),
        )

    def close(self) -> None:
        """End the process and wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


class OverHttp(Enginewright):
    """An engine of ours behind `/v1/embeddings`: token ids in, base64 out, one kept connection."""

    def __init__(self, command: list[str], *, threads: int) -> None:
        super().__init__(command, threads=threads)
        self.connection = http.client.HTTPConnection(self.address, timeout=300)

    def encode(self, sequences: list[list[int]]) -> Encoded:
        """Embeddings; the clock runs from sending the request to its last byte."""
        payload = json.dumps({"input": sequences, "encoding_format": "base64"})
        start = time.perf_counter()
        try:
            self.connection.request(
                "POST", "/v1/embeddings", payload, {"Content-Type": "application/json"}
            )
            response = self.connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"no answer ({error}): {self.how_it_ended()}") from error
        seconds = time.perf_counter() - start
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {body.decode(errors='replace')}")
        data = sorted(json.loads(body)["data"], key=lambda entry: entry["index"])
        rows = [np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in data]
        return Encoded(seconds=seconds, embeddings=np.stack(rows))

    def close(self) -> None:
        """End the server and wait for it."""
        self.connection.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """The steps of an engine of ours alone: `enginewright-engine profile`, a process a step."""

    engine: Path
    """The engine's folder."""
    checkpoint: Path
    """The checkpoint's folder."""
    threads: int
    """Threads of the pool."""

    def seconds(self, batch: int, tokens: int, *, repeats: int) -> float:
        """Median seconds of a batch: as many steps as the plan's rows make of it."""
        plan = json.loads((self.engine / "plan.json").read_text())
        sequences_a_step = int(plan["steps"]["encode"]["rows"]) // tokens
        if sequences_a_step == 0:
            raise RuntimeError(f"{self.engine}: no step has room for {tokens} tokens")
        whole, rest = divmod(batch, sequences_a_step)
        total = 0.0
        if whole:
            total += whole * self._step(sequences_a_step * tokens, tokens, repeats)
        if rest:
            total += self._step(rest * tokens, tokens, repeats)
        return total

    def _step(self, rows: int, tokens: int, repeats: int) -> float:
        command = [
            str(load_settings().engine_program),
            "profile",
            *("--engine", str(self.engine), "--checkpoint", str(self.checkpoint)),
            *("--step", "encode", "--rows", str(rows), "--segment", str(tokens)),
            *("--repeats", str(repeats), "--threads", str(self.threads)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"profile ended with {done.returncode}: {done.stderr.strip()}")
        return statistics.median(json.loads(done.stdout)["step_nanoseconds"]) / 1e9
