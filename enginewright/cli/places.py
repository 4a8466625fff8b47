"""The archive that a command reads, and the run that an argument names."""

from __future__ import annotations

from enginewright.errors import UsageError
from enginewright.retention import Archive, RunRecord, Store
from enginewright.settings import load_settings


def open_archive() -> Archive:
    """The archive of this place.

    Raises: UsageError if nothing was ever built here: reading makes no file.
    """
    path = load_settings().home / "archive.sqlite"
    if not path.exists():
        raise UsageError(
            f"{path}: there is no archive here",
            hint="run `enginewright build TARGET` first, or set ENGINEWRIGHT_HOME",
        )
    return Archive(path)


def open_store() -> Store:
    """The content-addressed store of this place."""
    return Store(load_settings().home / "store")


def find_run(archive: Archive, name: str | None) -> RunRecord:
    """The run called `name` (or that begins so), or the latest.

    Raises: UsageError if none or several fit.
    """
    runs = archive.runs()
    fitting = [run for run in runs if run.id.startswith(name)] if name else runs[-1:]
    if len(fitting) != 1:
        known = ", ".join(run.id for run in runs) or "none"
        raise UsageError(f"run `{name or 'latest'}`: {len(fitting)} fit", hint=f"known: {known}")
    return fitting[0]
