"""The loop's hands on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enginewright.delivery.report import ProfiledEngine, report_finished_run
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.sandbox import Level, open_sandbox
from enginewright.retention.memory import MEMORY_FILE, Memory
from enginewright.settings import Settings
from enginewright.swarm.agents.assemble import Prepared, assemble
from enginewright.swarm.agents.home_kernels import keep_winning_kernels
from enginewright.swarm.agents.local_hands import LocalHands
from enginewright.swarm.local_bench import LocalBench
from enginewright.swarm.loop import Hands, Options
from enginewright.swarm.proposer import Proposer
from enginewright.swarm.run import Run
from enginewright.swarm.tuning import Tuning
from enginewright.swarm.warm_start import lessons_of
from enginewright.variation.agents.redaction import Redactor


@contextmanager
def real_hands(
    settings: Settings,
    *,
    judge: JudgeSettings | None = None,
    sandbox: Level = "strong",
    prepared: Prepared | None = None,
) -> Iterator[Hands]:
    """Builder, judge, proposer, memory and report of this machine; what runs is stopped at the end.

    `judge` overrides the rules of trials; `sandbox` is the level that candidates are shut in at;
    `prepared` is what agents need, if others than the tuner take part.

    Raises: MachineError if this machine cannot give that level.
    """
    shut_in = open_sandbox(settings.sandbox_program, sandbox)
    bench = LocalBench(settings, judge=judge, sandbox=shut_in)
    try:
        yield Hands(
            inspect=bench.inspect,
            bench=bench,
            make_proposer=lambda run, options: _make_proposer(
                run,
                options,
                LocalHands(bench=bench, settings=settings, sandbox=shut_in),
                prepared or Prepared(),
            ),
            remember=lambda run, result: _remember(run, result, settings),
            write_report=lambda run, result: _write_report(run, result, settings),
        )
    finally:
        bench.close()


def _make_proposer(run: Run, options: Options, hands: LocalHands, prepared: Prepared) -> Proposer:
    timed = hands.time_step(run.subject.checkpoint)
    memory = hands.memory if options.warm else None
    tuner = Tuning(run, timed, memory)
    assert run.shelf is not None, "the loop opens one. This is a bug."
    grounds = hands.grounds(
        subject=run.subject,
        state=run.state,
        folder=run.folder,
        shelf=run.shelf,
        redactor=Redactor(prepared.secrets),
    )
    return assemble(run, options.agents, tuner, grounds, prepared)


def _remember(run: Run, result: dict[str, Any], settings: Settings) -> None:
    lessons = lessons_of(run, result["speedup"])
    if lessons:
        Memory(settings.home / MEMORY_FILE).learn(lessons)
    for name in keep_winning_kernels(run, result, settings.home):
        run.journal.tell("kernel_kept", kernel=name)


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
