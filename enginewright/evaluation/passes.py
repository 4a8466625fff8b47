"""One pass of one arm over a block's workload: a fresh process, the load, what was seen from
outside, the end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from enginewright.errors import EngineError
from enginewright.evaluation.contention import Contention, CpuWindow
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.load_generator import LoadGenerator
from enginewright.evaluation.load_records import Answer, LoadJob, Wave
from enginewright.evaluation.running_server import (
    FailureReason,
    Memory,
    Server,
    ServerFailed,
    Stopped,
)
from enginewright.evaluation.wire import call, first_model


class Arm(Protocol):
    """Something that can be started and measured: an engine, or another server."""

    @property
    def name(self) -> str:
        """What messages and evidence call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of what runs."""
        ...

    @property
    def engine(self) -> Path | None:
        """The folder of an engine that must tell what it runs; None for other servers."""
        ...

    @property
    def speaks_token_ids(self) -> bool:
        """Whether it takes the fields of docs/architecture.md and answers with token ids."""
        ...

    def start(self, log: Path) -> Server:
        """A fresh, ready server. Raises: ServerFailed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engagement:
    """What an engine says of itself (`GET /engine`) in front of its load and behind it."""

    before: dict[str, Any]
    """Before the first request."""
    after: dict[str, Any]
    """After the last timed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What was seen of one arm in one block."""

    arm: str
    """Its name."""
    start_seconds: float | None
    """From starting the process to its readiness; None if it is not ours."""
    memory: Memory | None
    """Resident memory after the timed requests; None if it is not here."""
    answers: tuple[Answer, ...]
    """The timed requests' answers."""
    together: tuple[Answer, ...]
    """Answers to those sent again all at once; empty if none were."""
    server_cpu_seconds: float | None
    """Processor time of the server while it was under load; None if it is not known."""
    contention: Contention
    """Who else used the processors while it was under load."""
    stopped: Stopped | None
    """How it ended; None if it is not ours."""
    load_share: float
    """Share of one processor that the load generator took while it sent."""
    engagement: Engagement | None = None
    """What it says that it ran; None for other servers than ours."""


def rounds_for(passes: Iterable[Pass], settings: JudgeSettings, *, rounds: int) -> int:
    """How often to multiply the workload so that the slower arm is timed for long enough.

    `rounds` is how often it was multiplied for these passes.
    """
    seconds = [
        max(answer.ended for answer in seen.answers) - min(answer.sent for answer in seen.answers)
        for seen in passes
        if seen.answers
    ]
    wanted = math.ceil(settings.pass_seconds * rounds / max(seconds, default=math.inf))
    return max(1, min(settings.most_rounds, wanted))


def is_disturbed(seen: Pass, settings: JudgeSettings) -> bool:
    """Whether others used the processors more than the rules allow."""
    others = seen.contention.other_share
    return (
        others is not None and others > settings.other_share_limit
    ) or seen.contention.steal_share > settings.steal_share_limit


def run_pass(
    arm: Arm,
    load: LoadGenerator,
    waves: tuple[Wave, ...],
    *,
    together: Wave | None,
    log: Path,
    timeout_seconds: float,
) -> Pass:
    """Start the arm, send the waves, look at it from outside, stop it.

    Raises: ServerFailed if it does not start, dies, times out or refuses a request.
    """
    server = arm.start(log)
    try:
        model = server.model or _first_model(server)
        before = None if arm.engine is None else _engine_facts(server)
        window = CpuWindow()
        cpu_before = server.cpu_seconds()
        job = LoadJob(
            base_url=server.base_url,
            model=model,
            api_key=server.api_key,
            fields=server.fields,
            timeout_seconds=timeout_seconds,
            waves=waves,
        )
        result = load.run(job)
        cpu_after = server.cpu_seconds()
        spent = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
        contention = window.close(
            known_cpu_seconds=None if spent is None else spent + result.cpu_seconds
        )
        _refuse_failures(server, result.answers)
        memory = server.memory()
        engagement = (
            None if before is None else Engagement(before=before, after=_engine_facts(server))
        )
        again: tuple[Answer, ...] = ()
        if together is not None:
            again = load.run(_with_waves(job, (together,))).answers
            _refuse_failures(server, again)
    finally:
        stopped = server.stop()
    return Pass(
        arm=arm.name,
        start_seconds=server.start_seconds,
        memory=memory,
        answers=tuple(answer for answer in result.answers if answer.phase == "timed"),
        together=again,
        server_cpu_seconds=spent,
        contention=contention,
        load_share=result.cpu_seconds / contention.seconds,
        stopped=stopped,
        engagement=engagement,
    )


def _engine_facts(server: Server) -> dict[str, Any]:
    try:
        return call(server.base_url, "/engine", timeout_seconds=30.0, api_key=server.api_key)
    except EngineError as error:
        reason: FailureReason = "died" if server.ends_within(2.0) else "refused"
        raise server.failure(reason, f"does not say what it runs: {error.message}") from error


def _first_model(server: Server) -> str:
    try:
        return first_model(server.base_url, timeout_seconds=30.0, api_key=server.api_key)
    except EngineError as error:
        reason: FailureReason = "died" if server.ends_within(2.0) else "refused"
        raise server.failure(reason, f"does not list its model: {error.message}") from error


def _with_waves(job: LoadJob, waves: tuple[Wave, ...]) -> LoadJob:
    return replace(job, waves=waves)


def _refuse_failures(server: Server, answers: tuple[Answer, ...]) -> None:
    """Raises: ServerFailed for the first request that failed, by what is to blame."""
    for answer in answers:
        if answer.error_kind is None:
            continue
        what = f"failed a request of {answer.scenario} ({answer.phase}): {answer.error}"
        raise _blame(server, answer, what)


def _blame(server: Server, answer: Answer, what: str) -> ServerFailed:
    if answer.error_kind == "timed_out":
        return server.failure("timed_out", what)
    # A connection breaks a moment before its process is gone.
    patience = 2.0 if answer.error_kind == "connection" else 0.0
    if server.ends_within(patience):
        return server.failure("died", what)
    return server.failure("refused", what)
