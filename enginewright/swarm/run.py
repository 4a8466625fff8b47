"""One run at work: what it is about, where it is kept, and who does the work."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.swarm.agents.shelf import Shelf
from enginewright.swarm.events import Journal
from enginewright.swarm.run_folder import RunFolder
from enginewright.swarm.run_state import RunState
from enginewright.swarm.stages import Stages
from enginewright.swarm.workbench import Arms, Subject, Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All that the steps of a build share. What must outlive the process is in `state`."""

    subject: Subject
    """What is built."""
    state: RunState
    """The archive's view."""
    folder: RunFolder
    """Files."""
    journal: Journal
    """History and budget."""
    stages: Stages
    """Where the time goes."""
    bench: Workbench
    """Builds and judges."""
    shelf: Shelf | None = None
    """Where agents' kernels come in; None where nobody may add any."""

    def champion_arms(self) -> Arms:
        """The naive engine, and the champion as candidate too."""
        naive = self.state.naive()
        assert naive is not None, "the bring-up comes first. This is a bug."
        champion = self.folder.engine(self.state.champion().id)
        return Arms(
            naive=self.folder.engine(naive[0].id),
            champion=champion,
            candidate=champion,
            work=self.folder.work,
        )
