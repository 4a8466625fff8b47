"""What the loop tells while it works: kept in the archive first, then shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from enginewright.retention import Archive
from enginewright.swarm.budget import Budget
from enginewright.swarm.run_folder import RunFolder, disk_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that happened."""

    kind: str
    """`phase`, `trial`, `verdict`, `champion`, `note`… ; `said` is progress that nobody keeps."""
    elapsed_seconds: float
    """Wall time of the run, earlier processes included."""
    left_seconds: float
    """Wall time left."""
    left_trials: int
    """Trials left."""
    details: dict[str, Any] = field(default_factory=dict)
    """Particulars."""


Listener = Callable[[Told], None]
"""Who shows what happens; it must not fail."""


class Journal:
    """Writes the run's history."""

    def __init__(
        self, archive: Archive, run: str, folder: RunFolder, budget: Budget, listener: Listener
    ) -> None:
        self._archive = archive
        self._run = run
        self._folder = folder
        self.budget = budget
        self._listener = listener

    def tell(self, kind: str, **details: Any) -> None:
        """Keep an event, then show it.

        Raises: ArchiveError, MachineError if it cannot be kept.
        """
        told = self._told(kind, details)
        self._archive.note(
            self._run, kind, {**details, "elapsed_seconds": round(told.elapsed_seconds, 3)}
        )
        line = json.dumps(
            {"at": time.time(), "kind": kind, **details, "elapsed_seconds": told.elapsed_seconds},
            ensure_ascii=False,
        )
        with disk_errors(self._folder.events), self._folder.events.open("a") as file:
            file.write(line + "\n")
        self._listener(told)

    def say(self, text: str) -> None:
        """Show progress that is not worth keeping."""
        self._listener(self._told("said", {"text": text}))

    def _told(self, kind: str, details: dict[str, Any]) -> Told:
        return Told(
            kind=kind,
            elapsed_seconds=self.budget.elapsed_seconds,
            left_seconds=self.budget.left_seconds,
            left_trials=self.budget.left_trials,
            details=details,
        )
