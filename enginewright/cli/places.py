"""The archive that a command reads, and the run that an argument names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from enginewright.errors import ArchiveError, UsageError
from enginewright.model import resolve_checkpoint
from enginewright.retention import Archive, CandidateRecord, RunRecord, Store
from enginewright.settings import load_settings
from enginewright.swarm.run_folder import RunFolder


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


def run_folder(run: RunRecord) -> RunFolder:
    """The folder of a run.

    Raises: UsageError if it was removed or lies elsewhere.
    """
    folder = RunFolder(load_settings().runs / run.id)
    if not folder.root.is_dir():
        raise UsageError(
            f"{folder.root}: the run's folder is not there",
            hint="go to the folder in which it was built, or set ENGINEWRIGHT_RUNS",
        )
    return folder


def find_candidate(archive: Archive, name: str) -> CandidateRecord:
    """The candidate called `name`, or that of the trial called so.

    Raises: ArchiveError if there is neither.
    """
    try:
        return archive.candidate(name)
    except ArchiveError:
        return archive.candidate(archive.trial(name).candidate)


def checkpoint_of(run: RunRecord) -> Path:
    """The folder of a run's weights. Raises: CheckpointError if they are gone."""
    path = resolve_checkpoint(run.target["model"]["checkpoint"])
    return path if path.is_dir() else path.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEngine:
    """An engine to start."""

    engine: Path
    """Its folder."""
    checkpoint: Path | None
    """Folder of the weights; None if they lie in the engine's."""


def engine_of(name: str | None, checkpoint: Path | None) -> FoundEngine:
    """The engine in the folder `name`, or the champion of the run called so (None: the latest).

    Raises: UsageError if there is neither.
    """
    if name is not None and (Path(name) / "plan.json").is_file():
        return FoundEngine(engine=Path(name), checkpoint=checkpoint)
    run = find_run(open_archive(), name)
    champion = run_folder(run).champion
    if not champion.exists():
        raise UsageError(f"run {run.id} has no engine yet", hint="run `enginewright build` again")
    return FoundEngine(engine=champion.resolve(), checkpoint=checkpoint or checkpoint_of(run))
