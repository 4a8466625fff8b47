"""The loop's hands on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enginewright.delivery.report import ProfiledEngine, report_finished_run
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.settings import Settings
from enginewright.swarm.first_steps import FirstSteps
from enginewright.swarm.local_bench import LocalBench
from enginewright.swarm.loop import Hands, Options
from enginewright.swarm.proposer import Proposer
from enginewright.swarm.run import Run


@contextmanager
def real_hands(settings: Settings, *, judge: JudgeSettings | None = None) -> Iterator[Hands]:
    """Builder, judge, proposer, memory and report of this machine; what runs is stopped at the end.

    `judge` overrides the rules of trials.
    """
    bench = LocalBench(settings, judge=judge)
    try:
        yield Hands(
            inspect=bench.inspect,
            bench=bench,
            make_proposer=_make_proposer,
            remember=_remember,
            write_report=lambda run, result: _write_report(run, result, settings),
        )
    finally:
        bench.close()


def _make_proposer(run: Run, options: Options) -> Proposer:
    return FirstSteps(run)


def _remember(run: Run, result: dict[str, Any]) -> None:
    return None


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
