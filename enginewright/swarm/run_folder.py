"""What a run leaves on the disk, and who may write to it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.errors import MachineError, UsageError


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`runs/<id>/`. Large things lie here; what happened is in the archive."""

    root: Path
    """The folder."""

    @property
    def target(self) -> Path:
        """Copy of the target file."""
        return self.root / "target.toml"

    @property
    def machine(self) -> Path:
        """The machine as probed when the run began."""
        return self.root / "machine.json"

    @property
    def inputs(self) -> Path:
        """graph.json and tokenizer.json."""
        return self.root / "inputs"

    @property
    def champion(self) -> Path:
        """Link to the best engine so far."""
        return self.root / "champion"

    @property
    def shipped(self) -> Path:
        """What `ship` made."""
        return self.root / "shipped"

    @property
    def work(self) -> Path:
        """Scratch of trials; may be removed when no build runs."""
        return self.root / "work"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.root / "report.html"

    @property
    def result(self) -> Path:
        """What `build --json` prints."""
        return self.root / "result.json"

    @property
    def events(self) -> Path:
        """The run's history, a JSON object a line."""
        return self.root / "events.jsonl"

    def candidate(self, candidate: str) -> Path:
        """Files of a candidate."""
        return self.root / "candidates" / candidate

    def engine(self, candidate: str) -> Path:
        """The engine built from a candidate."""
        return self.root / "engines" / candidate

    def point_champion_at(self, candidate: str) -> None:
        """Make `champion` the engine of `candidate`, in one step."""
        with disk_errors(self.champion):
            partial = self.root / ".champion.partial"
            partial.unlink(missing_ok=True)
            partial.symlink_to(Path("engines") / candidate)
            partial.replace(self.champion)

    def clear_work(self) -> None:
        """Remove the scratch folder."""
        shutil.rmtree(self.work, ignore_errors=True)


@contextmanager
def hold_run(folder: RunFolder) -> Iterator[None]:
    """Keep other builds away from this run while the block runs; the lock dies with the process.

    Raises: UsageError if another process builds it; MachineError if the disk refuses.
    """
    with disk_errors(folder.root):
        folder.root.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise UsageError(
                f"run {folder.root.name} is being built by process {holder}",
                hint="wait for it, stop it, or start another run with --fresh",
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def write_json(path: Path, held: Any) -> None:
    """Write `held` as JSON to `path`, whole or not at all.

    Raises: MachineError if the disk refuses.
    """
    write_text(path, json.dumps(held, ensure_ascii=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all.

    Raises: MachineError if the disk refuses.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn what the file system refuses into a MachineError that says what to do."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise MachineError(
            f"{place}: cannot be written: {error.strerror or error}",
            hint="free some space" if is_full else "check that the folder can be written",
        ) from error
