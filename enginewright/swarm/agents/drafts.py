"""A workspace as a candidate would be: sealed, applied to the champion's plan, built, checked,
timed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from enginewright.plan import Library, Plan
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.plan_timer import PlanTimer
from enginewright.swarm.workbench import Finding, Subject
from enginewright.variation.agents.change import apply_change, read_change
from enginewright.variation.agents.submission import Draft, seal
from enginewright.variation.agents.workspace import CHANGE, Workspace

CHECK_SECONDS = 60.0
"""As long as the judge takes for the kernels of one candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A draft made to a plan."""

    draft: Draft
    """Files and change, sealed."""
    library: Library
    """The run's kernels and the draft's."""
    champion: Plan
    """What it was applied to."""
    plan: Plan
    """What came out, legal."""

    def in_own_names(self, text: str) -> str:
        """A text with the agent's names of its kernels, not the sealed ones."""
        for own, sealed in self.draft.names.items():
            text = text.replace(sealed, own)
        return text

    def fallen_back(self) -> list[str]:
        """Ops that a plain kernel computes now and did not before: a group lost its neighbours."""
        return [
            f"{step}: {op}"
            for step, held in self.plan.steps.items()
            for group in held.groups
            for op in group.ops
            if group.kernel.startswith("naive_") and op not in _naive_ops(self.champion, step)
        ]


class Drafts:
    """Builds what lies in workspaces of one run."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def apply(self, workspace: Workspace) -> Applied:
        """Seal a workspace and apply its change to the champion's plan of now.

        Raises: UsageError, PlanError that say what is wrong with files or change.
        """
        state, subject = self._grounds.state, self._grounds.subject
        draft = seal(workspace.own_files(), read_change(workspace.read(CHANGE)))
        library = self._grounds.shelf.draft(draft.kernels)
        champion = state.plan(state.champion())
        plan = apply_change(draft.change, champion, subject.graph, library, subject.allowed)
        return Applied(draft=draft, library=library, champion=champion, plan=plan)

    def build(self, applied: Applied) -> Finding | None:
        """Compile what is new, in the sandbox; a rejection, or None if it is built."""
        engine = self._engine_place(applied.plan)
        if engine.exists():
            return None
        with self._grounds.device.held():
            return self._grounds.bench.build(
                self._subject(applied), applied.plan, engine.parent / "candidate", engine
            )

    def check(self, applied: Applied) -> Finding | None:
        """The judge's kernel check of a built draft; a rejection, or None."""
        with self._grounds.device.held():
            return self._grounds.bench.check_kernels(
                self._subject(applied),
                applied.plan,
                self._engine_place(applied.plan),
                CHECK_SECONDS,
            )

    def speedup(self, applied: Applied) -> float | None:
        """A built draft's speed over the champion's; None if one of them does not run."""
        champion = self._grounds.folder.engine(self._grounds.state.champion().id)

        def engine_of(plan: Plan) -> Path:
            return champion if plan == applied.champion else self._engine_place(plan)

        timer = PlanTimer(self._grounds.subject.target, self._grounds.time_step, engine_of)
        with self._grounds.device.held():
            return timer.speedup(applied.champion, applied.plan)

    def _subject(self, applied: Applied) -> Subject:
        return replace(self._grounds.subject, library=applied.library)

    def _engine_place(self, plan: Plan) -> Path:
        return self._grounds.folder.work / "drafts" / plan.sha256[:16] / "engine"


def _naive_ops(plan: Plan, step: str) -> set[str]:
    return {
        op
        for name, held in plan.steps.items()
        if name == step
        for group in held.groups
        if group.kernel.startswith("naive_")
        for op in group.ops
    }
