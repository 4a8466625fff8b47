"""From a target to a shipped engine, in one call that may be killed and made again at any
moment."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from enginewright.errors import EnginewrightError
from enginewright.retention import Archive, RunRecord, Store, open_ledger
from enginewright.settings import Settings
from enginewright.swarm.agents.open_shelf import open_shelf
from enginewright.swarm.bring_up import bring_up, build_if_absent, measure_bar
from enginewright.swarm.budget import Budget
from enginewright.swarm.events import Journal, Listener, Told
from enginewright.swarm.finish import (
    DELIVERY_SECONDS,
    LEAST_BLOCKS,
    confirm_champion,
    deliver_champion,
)
from enginewright.swarm.proposer import Proposer
from enginewright.swarm.result import build_result
from enginewright.swarm.run import Run
from enginewright.swarm.run_folder import RunFolder, disk_errors, hold_run, write_json
from enginewright.swarm.run_state import SEARCH, RunState
from enginewright.swarm.search import Search, protected_limits
from enginewright.swarm.sentinels import run_sentinels
from enginewright.swarm.shortlist import run_shortlist, shortlist_seconds
from enginewright.swarm.stages import Stages
from enginewright.swarm.workbench import Subject, Workbench
from enginewright.target import Agent, LoadedTarget

SENTINEL_SHARE = 0.12
"""Share of the wall time that candidates with known verdicts may take."""
SHORTLIST_SHARE = 0.1
"""Share of the wall time that the shortlist may take."""
AUDIT_SECONDS = 60.0
"""Time that the reference engine takes to judge the confirmation's outputs and to compare
distributions at a long context, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How `build` was asked to go about it."""

    fresh: bool = False
    """Start a new run though an unfinished one could go on."""
    warm: bool = True
    """Begin with what memory proposes."""
    agents: tuple[Agent, ...] = (Agent(kind="tuner"),)
    """Who proposes, in the order of turns."""


MakeProposer = Callable[[Run, Options], Proposer]
"""Makes the proposer of a run from its history."""
WriteReport = Callable[[Run, dict[str, Any]], Path]
"""Writes the page of a finished run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """Who does what the loop decides; tests replace them."""

    inspect: Callable[[LoadedTarget, Callable[[str], None]], Subject]
    """Reads the checkpoint and probes the machine."""
    bench: Workbench
    """Builds, judges and delivers."""
    make_proposer: MakeProposer
    """Variation."""
    remember: Callable[[Run, dict[str, Any]], None]
    """Keeps what won for later runs."""
    write_report: WriteReport
    """The page."""


def build_engine_for(
    loaded: LoadedTarget, settings: Settings, hands: Hands, *, options: Options, listener: Listener
) -> dict[str, Any]:
    """Carry out a target; the object that `build --json` prints (docs/cli.md).

    An unfinished run of the same target, weights, kernels, host and machine goes on where it
    stopped.

    Raises: EnginewrightError whose message says what is wrong; the run can then be resumed.
    """
    budget = Budget(
        wall_seconds=loaded.target.budget.wall_minutes * 60, trials=loaded.target.budget.trials
    )
    start = time.monotonic()

    def say(text: str) -> None:
        listener(_loose("said", budget, {"text": text}))

    listener(_loose("phase", budget, {"phase": "inspect"}))
    subject = hands.inspect(loaded, say)
    archive = Archive(settings.home / "archive.sqlite")
    store = Store(settings.home / "store")
    record, is_resumed = _open_run(archive, loaded, subject, fresh=options.fresh)
    folder = RunFolder(settings.runs / record.id)
    with hold_run(folder):
        state = RunState(archive, store, record.id, open_ledger(settings.home, record.id))
        state.sign_finished()
        searched = [trial for trial in state.trials(SEARCH) if trial.state == "finished"]
        budget.add_spent(seconds=state.spent_seconds(), trials=len(searched))
        shelf = open_shelf(folder, state, subject.library, home=settings.home, say=say)
        run = Run(
            subject=replace(subject, library=shelf.library),
            state=state,
            folder=folder,
            journal=Journal(archive, record.id, folder, budget, listener),
            stages=Stages(),
            bench=hands.bench,
            shelf=shelf,
        )
        _prepare(run, loaded, is_resumed=is_resumed)
        try:
            result = _carry_out(run, hands, options, start)
        except EnginewrightError as error:
            run.journal.tell("stopped", error=error.message)
            raise
        finally:
            folder.clear_work()
    return result


def _open_run(
    archive: Archive, loaded: LoadedTarget, subject: Subject, *, fresh: bool
) -> tuple[RunRecord, bool]:
    """The unfinished run to go on with, or a new one; and whether it is an old one."""
    held = archive.unfinished_run(loaded.sha256)
    if held is not None:
        started = [event for event in archive.events(held.id) if event.kind == "started"]
        is_same = bool(started) and started[-1].details["digests"] == subject.digests
        if is_same and not fresh:
            return held, True
        # Its findings are of other kernels, another host or machine, or were not wanted.
        archive.finish_run(held.id, "abandoned")
    record = archive.start_run(loaded.target.model_dump(mode="json"), loaded.sha256)
    archive.note(record.id, "started", {"digests": subject.digests, "elapsed_seconds": 0.0})
    return record, False


def _prepare(run: Run, loaded: LoadedTarget, *, is_resumed: bool) -> None:
    with disk_errors(run.folder.root):
        shutil.copyfile(loaded.source, run.folder.target)
    write_json(run.folder.machine, run.subject.machine.to_json())
    run.journal.tell(
        "run",
        run=run.state.run,
        target=loaded.target.name,
        resumed=is_resumed,
        folder=str(run.folder.root),
        model=run.subject.graph.name,
        machine=run.subject.machine.processor,
        threads=run.subject.threads,
    )


def _carry_out(run: Run, hands: Hands, options: Options, start: float) -> dict[str, Any]:
    tell = run.journal.tell
    tell("phase", phase="bring up")
    bring_up(run)
    tell("phase", phase="bar")
    bar = measure_bar(run)
    block_seconds = _block_seconds(run)
    budget = run.journal.budget
    sentinel_seconds = SENTINEL_SHARE * budget.wall_seconds
    listed_seconds = min(SHORTLIST_SHARE * budget.wall_seconds, shortlist_seconds())
    at_the_end = DELIVERY_SECONDS + LEAST_BLOCKS * block_seconds + AUDIT_SECONDS
    budget.keep_for_the_end(at_the_end + listed_seconds + sentinel_seconds)
    tell("phase", phase="search")
    patience = max(6, run.subject.target.budget.trials // 2)
    build_if_absent(run, run.state.champion())
    search = Search(run, protected_limits(run.subject.target, bar))
    reason = search.run(hands.make_proposer(run, options), patience=patience)
    tell("searched", reason=reason)
    budget.release(sentinel_seconds)
    run_sentinels(run, search.rules())
    budget.release(listed_seconds)
    tell("phase", phase="shortlist")
    left = budget.left_seconds - at_the_end
    shortlist = run_shortlist(run, seconds=min(left, shortlist_seconds()))
    tell("phase", phase="confirm")
    confirmed = confirm_champion(run, block_seconds=block_seconds)
    tell("phase", phase="ship")
    delivered, answer = deliver_champion(run)
    timings = run.stages.summary(time.monotonic() - start)
    result = build_result(
        run,
        confirmed,
        delivered,
        shortlist=shortlist,
        answer=answer,
        timings=timings,
        stopped_because=reason,
    )
    hands.remember(run, result)
    hands.write_report(run, result)
    write_json(run.folder.result, result)
    tell("finished", timings=timings)
    run.state.archive.finish_run(run.state.run)
    return result


def _block_seconds(run: Run) -> float:
    """Time of one block of all arms: the bar's, and something for the champion's share."""
    told = run.state.last_event("bar")
    return 1.3 * float(told["seconds"]) if told is not None else 0.0


def _loose(kind: str, budget: Budget, details: dict[str, Any]) -> Told:
    """Something told before there is a run to keep it in."""
    return Told(
        kind=kind,
        elapsed_seconds=budget.elapsed_seconds,
        left_seconds=budget.left_seconds,
        left_trials=budget.left_trials,
        details=details,
    )
