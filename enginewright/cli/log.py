"""`enginewright log`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.cli.places import find_run, open_archive


def log(
    run: Annotated[str | None, typer.Argument(help="A run; the latest if left out.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the trials of a run, with their tactics and verdicts."""
    archive = open_archive()
    record = find_run(archive, run)
    candidates = {held.id: held for held in archive.candidates(record.id)}
    rows = [
        {**asdict(trial), "tactic": candidates[trial.candidate].tactic}
        for trial in archive.trials(record.id)
    ]
    if as_json:
        print_json({"run": record.id, "state": record.state, "trials": rows})
        return
    names = ("id", "candidate", "stage", "tactic", "state", "verdict", "reason")
    print_rows(names, ([row[name] for name in names] for row in rows))
