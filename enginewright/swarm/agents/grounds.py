"""What an agent's desk stands on: one run, its kernels, and who builds and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.model import StepShape
from enginewright.plan.contracts import StepName
from enginewright.retention.memory import Memory
from enginewright.swarm.agents.shelf import Shelf
from enginewright.swarm.device_lock import DeviceLock
from enginewright.swarm.plan_timer import TimeStep
from enginewright.swarm.run_folder import RunFolder
from enginewright.swarm.run_state import RunState
from enginewright.swarm.workbench import Subject, Workbench
from enginewright.variation.agents.redaction import Redactor

ProfileStep = Callable[[Path, StepName, StepShape], dict[str, Any] | None]
"""What the host's profiler says of a step of an engine, in the sandbox; None if it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """Shared by all desks of a run in one process."""

    subject: Subject
    """What is built; its library is the shelf's."""
    state: RunState
    """The archive's view."""
    folder: RunFolder
    """Files."""
    bench: Workbench
    """Builds and checks, in the sandbox."""
    shelf: Shelf
    """The run's kernels."""
    time_step: TimeStep
    """Times a step, in the sandbox."""
    profile_step: ProfileStep
    """Profiles a step, in the sandbox."""
    memory: Memory | None
    """What earlier runs learnt."""
    device: DeviceLock
    """Held while anything is compiled, checked or timed."""
    redactor: Redactor
    """Keeps secrets out of what is handed in."""
    guide: str
    """How kernels are written."""

    def workspace(self, name: str) -> Path:
        """Where an agent's files lie."""
        return self.folder.root / "workspaces" / name
