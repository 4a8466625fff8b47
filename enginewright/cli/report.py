"""`enginewright report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json
from enginewright.cli.places import find_run, open_archive, open_store, run_folder


def report(
    run: Annotated[str | None, typer.Argument(help="A run; the latest if left out.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File to write; report.html of the run if left out."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write one self-contained HTML page on a run, finished or not."""
    # Imported when asked for: together they take seconds.
    from enginewright.delivery.report import material_from_run, write_report

    archive = open_archive()
    record = find_run(archive, run)
    folder = run_folder(record)
    material = material_from_run(folder.root, archive, open_store())
    path = write_report(material, out or folder.report)
    if as_json:
        print_json({"run": record.id, "report": str(path)})
    else:
        print(path)
