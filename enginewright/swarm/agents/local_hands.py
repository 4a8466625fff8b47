"""What desks of this machine time and profile with: the host program in the sandbox, nobody else
measuring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from enginewright.evaluation.sandbox import Sandbox
from enginewright.model import StepShape
from enginewright.plan.contracts import StepName
from enginewright.retention.memory import MEMORY_FILE, Memory
from enginewright.settings import Settings
from enginewright.swarm.agents.assemble import read_guide
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.shelf import Shelf
from enginewright.swarm.device_lock import DeviceLock
from enginewright.swarm.local_bench import LocalBench
from enginewright.swarm.plan_timer import TimeStep
from enginewright.swarm.run_folder import RunFolder
from enginewright.swarm.run_state import RunState
from enginewright.swarm.step_timing import profile_step, time_step
from enginewright.swarm.workbench import Subject
from enginewright.variation.agents.redaction import Redactor

PROFILE_REPEATS = 15
"""Steps of one profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHands:
    """This machine's."""

    bench: LocalBench
    """Builds and checks."""
    settings: Settings
    """Where things lie."""
    sandbox: Sandbox
    """What engines run in."""

    @property
    def memory(self) -> Memory:
        """What earlier runs learnt."""
        return Memory(self.settings.home / MEMORY_FILE)

    @property
    def device(self) -> DeviceLock:
        """Held by whoever measures."""
        return self.bench.device

    def time_step(self, checkpoint: Path) -> TimeStep:
        """Times steps for whoever does not hold the device."""
        plain = self._timed(checkpoint)
        device = self.device

        def alone(engine: Path, step: StepName, shape: StepShape) -> float | None:
            with device.held():
                return plain(engine, step, shape)

        return alone

    def grounds(
        self,
        *,
        subject: Subject,
        state: RunState,
        folder: RunFolder,
        shelf: Shelf,
        redactor: Redactor,
    ) -> Grounds:
        """What the desks of one run stand on; they hold the device themselves."""
        return Grounds(
            subject=subject,
            state=state,
            folder=folder,
            bench=self.bench,
            shelf=shelf,
            time_step=self._timed(subject.checkpoint),
            profile_step=partial(
                _profiled, self.settings.engine_program, subject.checkpoint, self.sandbox
            ),
            memory=self.memory,
            device=self.device,
            redactor=redactor,
            guide=read_guide(self.settings.kernels),
        )

    def _timed(self, checkpoint: Path) -> Callable[[Path, StepName, StepShape], float | None]:
        program, sandbox = self.settings.engine_program, self.sandbox

        def timed(engine: Path, step: StepName, shape: StepShape) -> float | None:
            return time_step(program, engine, checkpoint, step, shape, sandbox=sandbox)

        return timed


def _profiled(
    program: Path,
    checkpoint: Path,
    sandbox: Sandbox,
    engine: Path,
    step: StepName,
    shape: StepShape,
) -> dict[str, object] | None:
    return profile_step(
        program, engine, checkpoint, step, shape, repeats=PROFILE_REPEATS, sandbox=sandbox
    )
