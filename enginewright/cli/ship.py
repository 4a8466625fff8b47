"""`enginewright ship`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json
from enginewright.cli.places import checkpoint_of, find_run, open_archive, open_store, run_folder
from enginewright.errors import UsageError
from enginewright.swarm.run_state import RunState


def ship(
    out: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    run: Annotated[str | None, typer.Argument(help="A run; the latest if left out.")] = None,
    embed_weights: Annotated[
        bool, typer.Option("--embed-weights", help="Put the weights into the program.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Link a run's champion into one program that needs no Python, no compiler and no network."""
    # Imported when asked for: together they take seconds.
    from enginewright.delivery.ship import ship as ship_engine

    archive = open_archive()
    record = find_run(archive, run)
    folder = run_folder(record)
    state = RunState(archive, open_store(), record.id)
    if state.naive() is None:
        raise UsageError(
            f"run {record.id} has no engine yet", hint="run `enginewright build` again"
        )
    champion = state.champion()
    evidence = [
        trial.evidence
        for trial in archive.trials(record.id)
        if trial.candidate == champion.id and trial.evidence is not None
    ]
    shipped = ship_engine(
        folder.engine(champion.id),
        folder.candidate(champion.id),
        checkpoint_of(record),
        out,
        embed_weights=embed_weights,
        evidence=evidence,
    )
    if as_json:
        print_json(
            {
                "run": record.id,
                "candidate": champion.id,
                "folder": str(shipped.folder),
                "binary": str(shipped.binary),
                "manifest": str(shipped.manifest),
                "checked_answers": shipped.checked_answers,
            }
        )
    else:
        print(
            f"{shipped.binary}: answers {shipped.checked_answers} fresh requests as the engine did"
        )
        print(f"start it: {shipped.binary} serve --port 8000")
