"""After the search: confirm on fresh inputs, deliver, ask the delivered engine one thing."""

from __future__ import annotations

import secrets
from dataclasses import asdict

from enginewright.swarm.run import Run
from enginewright.swarm.run_state import CONFIRM
from enginewright.swarm.workbench import Confirmed, Delivered


def confirm_champion(run: Run) -> Confirmed:
    """Measure the champion beside the naive engine on inputs that the search never saw; only these
    figures are quoted. Taken from the archive if an earlier process confirmed this champion."""
    state = run.state
    champion = state.champion()
    held = [trial for trial in state.trials(CONFIRM) if trial.candidate == champion.id]
    if held and held[0].state == "finished":
        return Confirmed(**state.evidence(held[0]))
    trial = held[0] if held else state.archive.queue_trial(champion.id, CONFIRM)
    state.archive.begin_trial(trial.id)
    with run.stages.stage("confirm"):
        # Drawn now: no engine of the run has seen an input that follows from it.
        seed = secrets.randbits(62)
        found = run.bench.confirm(run.subject, run.champion_arms(), seed, run.journal.say)
    speed = found.speedup
    holding = sum(item["holds"] for item in found.acceptance)
    headline = (
        f"{speed['value']:.2f}x the naive engine ({speed['low']:.2f} to {speed['high']:.2f}); "
        f"{holding} of {len(found.acceptance)} criteria hold"
    )
    state.finish(trial, "kept", headline, asdict(found))
    run.journal.tell("confirmed", candidate=champion.id, trial=trial.id, reason=headline)
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
