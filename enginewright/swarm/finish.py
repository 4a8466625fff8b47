"""After the search: confirm on fresh inputs, deliver, ask the delivered engine one thing."""

from __future__ import annotations

from dataclasses import asdict

from enginewright.errors import InternalError
from enginewright.swarm.bring_up import build_if_absent
from enginewright.swarm.run import Run
from enginewright.swarm.run_state import CONFIRM
from enginewright.swarm.workbench import Confirmed, Delivered

LEAST_BLOCKS, MOST_BLOCKS = 3, 8
"""Blocks of the confirmation; how many of them follows from the time that is left."""
DELIVERY_SECONDS = 30.0
"""Time that shipping and the report take, roughly."""


def confirm_champion(run: Run, *, block_seconds: float) -> Confirmed:
    """Measure the champion beside the naive engine on inputs that the search never saw; only these
    figures are quoted. A champion whose outputs turn out to be wrong makes room for the one before.

    Taken from the archive if an earlier process confirmed this champion. `block_seconds`: of one
    block of all arms, as the bar took it.
    """
    while True:
        found = _confirm_once(run, block_seconds)
        if found.wrong is None:
            return found
        run.folder.point_champion_at(run.state.champion().id)


def _confirm_once(run: Run, block_seconds: float) -> Confirmed:
    state = run.state
    champion = state.champion()
    build_if_absent(run, champion)
    held = [trial for trial in state.trials(CONFIRM) if trial.candidate == champion.id]
    if held and held[0].state == "finished":
        return Confirmed(**state.evidence(held[0]))
    trial = held[0] if held else state.archive.queue_trial(champion.id, CONFIRM)
    state.archive.begin_trial(trial.id)
    left = run.journal.budget.left_seconds - DELIVERY_SECONDS
    affordable = int(left / block_seconds) if block_seconds > 0 else MOST_BLOCKS
    blocks = max(LEAST_BLOCKS, min(MOST_BLOCKS, affordable))
    with run.stages.stage("confirm"):
        found = run.bench.confirm(run.subject, run.champion_arms(), blocks, run.journal.say)
    speed = found.speedup
    holding = sum(item["holds"] for item in found.acceptance)
    headline = (
        f"{speed['value']:.2f}x the naive engine ({speed['low']:.2f} to {speed['high']:.2f}); "
        f"{holding} of {len(found.acceptance)} criteria hold"
    )
    if found.wrong is not None:
        headline = f"rejected: wrong on fresh inputs: {found.wrong}"
    verdict = "kept" if found.wrong is None else "rejected"
    state.finish(trial, verdict, headline, asdict(found))
    run.journal.tell(
        "confirmed", candidate=champion.id, trial=trial.id, verdict=verdict, reason=headline
    )
    if found.wrong is not None and champion.parent is None:
        raise InternalError(f"the reference engine itself: {found.wrong}. This is a bug.")
    return found


def deliver_champion(run: Run) -> tuple[Delivered, dict[str, str]]:
    """Ship the champion and have the shipped program answer one request: the program, and the
    `request` and `answer`."""
    champion = run.state.champion()
    evidence = [
        trial.evidence
        for trial in run.state.archive.trials(run.state.run)
        if trial.candidate == champion.id and trial.evidence is not None
    ]
    with run.stages.stage("deliver"):
        delivered = run.bench.deliver(
            run.subject, run.champion_arms(), run.folder.candidate(champion.id),
            run.folder.shipped, evidence,
        )  # fmt: skip
        run.journal.tell("shipped", candidate=champion.id, binary=str(delivered.binary))
        answer = run.bench.ask_once(run.subject, delivered)
    run.journal.tell("answered", **answer)
    return delivered, answer
