"""`enginewright audit`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.cli.places import find_run, open_archive, open_store
from enginewright.errors import EnginewrightError
from enginewright.retention import Archive, check_ledger, ledger_of
from enginewright.settings import Settings, load_settings
from enginewright.swarm.subject import kernels_digest
from enginewright.target import probe_machine

FLAWED = 9
"""Exit code: the record was changed, or is not whole."""


def audit(
    run: Annotated[str | None, typer.Argument(help="A run; the latest if none is named.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Public key that must have signed, hexadecimal; else the first line's."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Check a run's record: signatures, chain, evidence by digest, and what has changed since.

    Says `stale` where this machine, the host program or the kernels are not those that were
    measured: the figures stand, but not for what is here now. Ends with 9 if anything was changed,
    dropped or added.
    """
    settings = load_settings()
    archive = open_archive()
    record = find_run(archive, run)
    ledger = ledger_of(settings.home, record.id)
    flaws = check_ledger(ledger, archive.trials(record.id), open_store(), key=key)
    lines = ledger.lines()
    signer = lines[0]["key"] if lines else None
    stale = _stale(archive, record.id, settings)
    if as_json:
        print_json(
            {
                "run": record.id,
                "signed": len(lines),
                "key": signer,
                "flaws": [{"trial": flaw.trial, "what": flaw.what} for flaw in flaws],
                "stale": stale,
            }
        )
        return FLAWED if flaws else 0
    console = Console()
    console.print(f"{len(lines)} verdicts signed by {signer or 'nobody'}", soft_wrap=True)
    if flaws:
        print_rows(("trial", "flaw"), ((flaw.trial, flaw.what) for flaw in flaws))
    else:
        console.print("every signature, link and piece of evidence is whole")
    for line in stale:
        console.print(f"[yellow]stale[/yellow]: {line}", soft_wrap=True)
    return FLAWED if flaws else 0


def _stale(archive: Archive, run: str, settings: Settings) -> list[str]:
    """What is not as it was when the run began."""
    started = [event for event in archive.events(run) if event.kind == "started"]
    if not started:
        return ["the run does not say what it was measured with"]
    digests: dict[str, Any] = started[-1].details["digests"]
    now: dict[str, Callable[[], str]] = {
        "host": lambda: _file_digest(settings.engine_program),
        "kernels": lambda: kernels_digest(settings.kernels),
        "machine": lambda: probe_machine(settings.engine_program).digest,
    }
    found = []
    for name, digest in now.items():
        try:
            held = digest()
        except (OSError, EnginewrightError) as error:
            found.append(f"{name}: cannot be looked at: {error}")
            continue
        if digests.get(name) != held:
            found.append(f"{name}: not the one that was measured")
    return found


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
