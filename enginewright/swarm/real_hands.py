"""The loop's hands on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enginewright.delivery.report import ProfiledEngine, report_finished_run
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.sandbox import Level, open_sandbox
from enginewright.model import StepShape
from enginewright.plan.contracts import StepName
from enginewright.retention.memory import MEMORY_FILE, Memory
from enginewright.settings import Settings
from enginewright.swarm.local_bench import LocalBench
from enginewright.swarm.loop import Hands, Options
from enginewright.swarm.proposer import Proposer
from enginewright.swarm.run import Run
from enginewright.swarm.step_timing import time_step
from enginewright.swarm.tuning import Tuning
from enginewright.swarm.warm_start import lessons_of


@contextmanager
def real_hands(
    settings: Settings, *, judge: JudgeSettings | None = None, sandbox: Level = "strong"
) -> Iterator[Hands]:
    """Builder, judge, proposer, memory and report of this machine; what runs is stopped at the end.

    `judge` overrides the rules of trials; `sandbox` is the level that candidates are shut in at.

    Raises: MachineError if this machine cannot give that level.
    """
    shut_in = open_sandbox(settings.sandbox_program, sandbox)
    bench = LocalBench(settings, judge=judge, sandbox=shut_in)
    try:
        yield Hands(
            inspect=bench.inspect,
            bench=bench,
            make_proposer=lambda run, options: _make_proposer(run, options, settings),
            remember=lambda run, result: _remember(run, result, settings),
            write_report=lambda run, result: _write_report(run, result, settings),
        )
    finally:
        bench.close()


def _make_proposer(run: Run, options: Options, settings: Settings) -> Proposer:
    memory = Memory(settings.home / MEMORY_FILE) if options.warm else None

    def timed(engine: Path, step: StepName, shape: StepShape) -> float | None:
        return time_step(settings.engine_program, engine, run.subject.checkpoint, step, shape)

    return Tuning(run, timed, memory)


def _remember(run: Run, result: dict[str, Any], settings: Settings) -> None:
    lessons = lessons_of(run, result["speedup"]["value"])
    if lessons:
        Memory(settings.home / MEMORY_FILE).learn(lessons)


def _write_report(run: Run, result: dict[str, Any], settings: Settings) -> Path:
    arms = run.champion_arms()
    profiled = ProfiledEngine(
        program=settings.engine_program,
        engine=arms.champion,
        checkpoint=run.subject.checkpoint,
        machine=run.subject.machine,
    )
    return report_finished_run(
        run.folder.root,
        run.state.archive,
        run.state.store,
        result=result,
        champion=profiled,
        scenarios=run.subject.target.workload.scenario,
    )
