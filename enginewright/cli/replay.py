"""`enginewright replay`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.cli.places import find_run, open_archive, open_store
from enginewright.evaluation.redecide import can_redecide, redecide, stored_verdict
from enginewright.retention import Store, TrialRecord

DIFFERS = 9
"""Exit code: a verdict does not follow from its evidence."""
_JUDGED = ("search", "sentinel")


def replay(
    run: Annotated[str | None, typer.Argument(help="A run; the latest if none is named.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Decide every trial of a run again from its raw samples, and compare with the verdicts.

    Nothing is run. Ends with 9 if a verdict does not follow from its evidence.
    """
    archive = open_archive()
    record = find_run(archive, run)
    store = open_store()
    found = [
        _again(trial, store)
        for trial in archive.trials(record.id)
        if trial.stage in _JUDGED and trial.state == "finished"
    ]
    differ = [held["trial"] for held in found if held["same"] is False]
    if as_json:
        print_json({"run": record.id, "trials": found, "differ": differ})
    else:
        marks = {True: "same", False: "DIFFERS", None: "not from samples"}
        rows = (
            (
                held["trial"],
                held["stored"],
                held["again"],
                held["speedup"] or "",
                marks[held["same"]],
            )
            for held in found
        )
        print_rows(("trial", "verdict", "decided again", "speed-up", ""), rows)
    return DIFFERS if differ else 0


def _again(trial: TrialRecord, store: Store) -> dict[str, Any]:
    assert trial.evidence is not None, "a finished trial has evidence. This is a bug."
    evidence = json.loads(store.get(trial.evidence))
    if "verdict" not in evidence or not can_redecide(evidence):
        # Refused before it was measured (it did not build, a kernel was wrong), or by an older
        # judge that kept less.
        told = trial.reason or ""
        return {"trial": trial.id, "stored": told, "again": "-", "speedup": None, "same": None}
    stored = stored_verdict(evidence)
    try:
        found = redecide(evidence)
    except (KeyError, ValueError, TypeError) as error:
        again = f"cannot be decided: {type(error).__name__}: {error}"
        return {"trial": trial.id, "stored": stored, "again": again, "speedup": None, "same": False}
    speedup = None if found.speedup is None else f"{found.speedup:.4f}x"
    same = found.verdict == stored if found.from_samples else None
    return {
        "trial": trial.id,
        "stored": stored,
        "again": found.verdict,
        "speedup": speedup,
        "same": same,
    }
