"""What a target says, as frozen records; the TOML file is exactly this."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from enginewright.target.agents import Agent
from enginewright.target.record import Record

Numeric = Literal["activations_q8", "cache_f16"]
"""Approximations that a target may allow; by default none is."""

Comparison = Literal[">=", "<="]


class Model(Record):
    """`[model]`: which checkpoint."""

    checkpoint: str = Field(min_length=1)
    """A .gguf file, a folder of safetensors, or `package:NAME/PATH` inside an installed package.
    A relative path starts at the target file's folder, or else at the working directory."""
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{8,64}$")
    """First digits of the weights' digest; the build stops when they differ."""


class Hardware(Record):
    """`[hardware]`: what the engine runs on."""

    device: Literal["cpu"] = "cpu"
    """Kind of device."""
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    """Threads of the engine; `auto` is every core that this process may use."""


class Scenario(Record):
    """`[[workload.scenario]]`: one kind of request."""

    name: str = Field(pattern="^[a-z0-9][a-z0-9-]*$")
    """Names the scenario's metrics."""
    prompt_tokens: int = Field(ge=4, le=1_000_000)
    """Tokens of each prompt or text."""
    output_tokens: int = Field(default=0, ge=0, le=1_000_000)
    """Tokens to generate; 0 for encoders."""
    streams: int = Field(default=1, ge=1, le=256)
    """Requests in flight at once."""
    batch: int = Field(default=1, ge=1, le=1024)
    """Texts of each request (encoders)."""
    requests: int = Field(default=1, ge=1, le=1000)
    """Requests of each stream in one block."""


class Workload(Record):
    """`[workload]`: what the engine must be good at."""

    objective: Literal[
        "request_ms",
        "ttft_ms",
        "decode_tokens_per_s",
        "prefill_tokens_per_s",
        "throughput_tokens_per_s",
        "texts_per_s",
    ] = "request_ms"
    """What the loop improves: the geometric mean of this metric over the scenarios."""
    scenario: tuple[Scenario, ...] = Field(min_length=1)
    """Kinds of requests."""


class Criterion(Record):
    """`[[accept]]`: one thing that must hold on fresh inputs."""

    metric: str
    """A metric, overall (`decode_tokens_per_s`) or of a scenario (`chat.decode_tokens_per_s`)."""
    comparison: Comparison
    """Which side of the value is good."""
    value: float = Field(allow_inf_nan=False)
    """The goal: in the metric's unit, as a multiple of another arm, or as a share of the floor."""
    against: str = "absolute"
    """`absolute`, `naive`, `floor`, or the name of a baseline."""


class Numerics(Record):
    """`[numerics]`: which approximations are allowed, and how far outputs may move."""

    allow: tuple[Numeric, ...] = ()
    """Approximations that candidates may use."""
    regret_nats: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    """Most regret of one emitted token under the reference engine, in nats."""
    regret_mean_nats: float = Field(default=0.005, ge=0, allow_inf_nan=False)
    """Most regret of the mean token, in nats."""
    cosine: float = Field(default=0.99999, gt=0, le=1)
    """Least cosine of an embedding with the reference engine's."""
    embedding_error: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    """Most absolute difference of an element of an embedding from the reference engine's."""


class Baseline(Record):
    """`[[baseline]]`: another server behind the same load generator."""

    name: str = Field(pattern="^[a-z0-9][a-z0-9._-]*$")
    """What criteria call it."""
    url: str | None = Field(default=None, min_length=8)
    """Base URL of a running OpenAI-compatible server."""
    command: tuple[str, ...] | None = None
    """Command that starts one; `{port}`, `{checkpoint}` and `{threads}` are filled in."""
    model: str | None = None
    """Model name that it expects."""
    start_seconds: float = Field(default=120.0, gt=0)
    """How long it may take to answer."""


class Budget(Record):
    """`[budget]`: hard limits of the search."""

    wall_minutes: float = Field(gt=0, le=100_000)
    """Wall time of the whole build."""
    trials: int = Field(ge=1, le=1_000_000)
    """Whole-engine trials."""


class Target(Record):
    """What the user asks for."""

    name: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Names runs and engines."""
    model: Model
    """Which checkpoint."""
    hardware: Hardware = Hardware()
    """What it runs on."""
    workload: Workload
    """What it must be good at."""
    accept: tuple[Criterion, ...] = ()
    """What must hold."""
    numerics: Numerics = Numerics()
    """Which approximations are allowed."""
    baseline: tuple[Baseline, ...] = ()
    """Other servers to stand beside."""
    budget: Budget
    """Hard limits."""
    agent: tuple[Agent, ...] = ()
    """Who proposes besides the tuner."""

    @property
    def is_encoder(self) -> bool:
        """Whether the workload asks for embeddings (no scenario generates tokens)."""
        return all(scenario.output_tokens == 0 for scenario in self.workload.scenario)


class LoadedTarget(BaseModel):
    """A target with the file it came from."""

    model_config = ConfigDict(frozen=True)

    target: Target
    """What the file says."""
    source: Path
    """The file."""
    sha256: str
    """Digest of the file's bytes."""


def threads_for(target: Target) -> int:
    """The number of threads that the target means on this machine."""
    asked = target.hardware.threads
    return len(os.sched_getaffinity(0)) if asked == "auto" else asked
