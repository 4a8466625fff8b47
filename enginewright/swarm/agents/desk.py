"""An agent's desk: the tools, carried out in one workspace of one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from enginewright.errors import PlanError, UsageError
from enginewright.swarm.agents.drafts import Applied, Drafts
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.inbox import HandedIn, hand_in
from enginewright.swarm.agents.profile_view import told_profile
from enginewright.swarm.agents.views import told_lessons, told_plan
from enginewright.swarm.workbench import Finding
from enginewright.variation.agents.edit_blocks import Edit, apply_edits
from enginewright.variation.agents.exchange import Tool
from enginewright.variation.agents.submission import Submission, read_claim
from enginewright.variation.agents.tools import CODER_TOOLS, ToolResult, wrong_arguments
from enginewright.variation.agents.workspace import Workspace

MOST_LINES = 400
"""Lines of one look into a file."""
MOST_FOUND = 60
"""Lines that a search gives."""


class RunDesk:
    """Works for one agent. Rights come from its workspace, never from what it says."""

    def __init__(
        self,
        grounds: Grounds,
        agent: str,
        workspace: Workspace,
        *,
        tools: tuple[Tool, ...] = CODER_TOOLS,
        conversation: int = 0,
    ) -> None:
        """`agent` is who hands in, `coder:NAME` or `guest:NAME`; `conversation` a coder's."""
        self._grounds = grounds
        self._agent = agent
        self._workspace = workspace
        self._drafts = Drafts(grounds)
        self._tools = tools
        self._conversation = conversation
        self.handed_in: list[HandedIn] = []
        self._uses: dict[str, Callable[[dict[str, Any]], ToolResult]] = {
            "read_plan": self._read_plan,
            "read_profile": lambda _: _said(told_profile(grounds)),
            "read_lessons": lambda _: _said(told_lessons(grounds)),
            "list_files": self._list_files,
            "read_file": self._read_file,
            "find_text": self._find_text,
            "write_file": self._write_file,
            "edit_file": self._edit_file,
            "build": self._build,
            "check": self._check,
            "time": self._time,
            "submit": self._submit,
            "give_up": lambda held: ToolResult(text=f"gave up: {held['reason']}", ends=True),
        }

    def use(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Carry out one tool.

        Raises: MachineError, ArchiveError if this machine cannot go on; nothing for a bad call.
        """
        wrong = wrong_arguments(self._tools, name, arguments)
        if wrong is not None:
            return ToolResult(text=wrong, is_error=True)
        try:
            return self._uses[name](arguments)
        except (UsageError, PlanError) as error:
            return ToolResult(text=str(error), is_error=True)

    def _read_plan(self, _: dict[str, Any]) -> ToolResult:
        state = self._grounds.state
        return _said(told_plan(state.plan(state.champion()), self._grounds))

    def _list_files(self, _: dict[str, Any]) -> ToolResult:
        return _said(
            "\n".join(
                f"{size:8,} {path}{'  (yours)' if is_own else ''}"
                for path, size, is_own in self._workspace.listing()
            )
        )

    def _read_file(self, held: dict[str, Any]) -> ToolResult:
        lines = self._workspace.read(held["path"]).splitlines()
        first = max(1, held.get("first_line", 1))
        last = min(held.get("last_line", first + MOST_LINES - 1), first + MOST_LINES - 1)
        shown = lines[first - 1 : last]
        head = f"{held['path']}, lines {first} to {first + len(shown) - 1} of {len(lines)}"
        return _said("\n".join([head, *shown]))

    def _find_text(self, held: dict[str, Any]) -> ToolResult:
        if not held["text"]:
            return ToolResult(text="find_text: `text` is empty", is_error=True)
        found = [
            f"{path}:{number}: {line.strip()[:160]}"
            for path, _, _ in self._workspace.listing()
            for number, line in enumerate(self._workspace.read(path).splitlines(), start=1)
            if held["text"] in line
        ]
        more = [f"… {len(found) - MOST_FOUND} more"] if len(found) > MOST_FOUND else []
        return _said("\n".join([*found[:MOST_FOUND], *more]) or "it stands nowhere")

    def _write_file(self, held: dict[str, Any]) -> ToolResult:
        self._workspace.write(held["path"], held["content"])
        return _said(f"{held['path']} is written, {len(held['content'].splitlines())} lines")

    def _edit_file(self, held: dict[str, Any]) -> ToolResult:
        edits = [Edit(edit["search"], edit["replace"]) for edit in held["edits"]]
        path = held["path"]
        self._workspace.write(path, apply_edits(self._workspace.read(path), edits, path=path))
        return _said(f"{path}: {len(edits)} edits are made")

    def _build(self, _: dict[str, Any]) -> ToolResult:
        applied = self._drafts.apply(self._workspace)
        refused = self._drafts.build(applied)
        return _refusal(applied, refused) or _said(f"It builds.{_warnings(applied)}")

    def _check(self, _: dict[str, Any]) -> ToolResult:
        applied = self._drafts.apply(self._workspace)
        refused = self._drafts.build(applied) or self._drafts.check(applied)
        return _refusal(applied, refused) or _said(
            f"It builds, and every new kernel is right.{_warnings(applied)}"
        )

    def _time(self, _: dict[str, Any]) -> ToolResult:
        applied = self._drafts.apply(self._workspace)
        refused = self._drafts.build(applied)
        if refused is not None:
            return _refusal(applied, refused) or _said("")
        speedup = self._drafts.speedup(applied)
        if speedup is None:
            return ToolResult(text="it builds, and does not run through", is_error=True)
        return _said(
            f"{speedup:.4f}x the champion's speed over the workload's steps (a quick look: only a "
            f"trial decides).{_warnings(applied)}"
        )

    def _submit(self, held: dict[str, Any]) -> ToolResult:
        grounds = self._grounds
        claim = read_claim(held["hypothesis"], held["predicted_effect"], grounds.redactor)
        applied = self._drafts.apply(self._workspace)
        if applied.plan.sha256 in grounds.state.tried_plans():
            return ToolResult(
                text="the very same candidate was tried before: read_lessons", is_error=True
            )
        refused = self._drafts.build(applied)
        if refused is not None:
            return _refusal(applied, refused) or _said("")
        made = hand_in(
            grounds.state,
            Submission(
                agent=self._agent,
                kernels=applied.draft.kernels,
                change=applied.draft.change,
                claim=claim,
            ),
            conversation=self._conversation,
        )
        self.handed_in.append(made)
        return ToolResult(text=f"submission {made.id} is handed in", ends=True)


def _said(text: str) -> ToolResult:
    return ToolResult(text=text)


def _refusal(applied: Applied, refused: Finding | None) -> ToolResult | None:
    if refused is None:
        return None
    log = refused.evidence.get("log") or ""
    text = applied.in_own_names(f"{refused.headline}\n{log}".strip())
    return ToolResult(text=text, is_error=True)


def _warnings(applied: Applied) -> str:
    lost = applied.fallen_back()
    if not lost:
        return ""
    return (
        f" Note: {len(lost)} ops lost their group and are computed by plain kernels now "
        f"({', '.join(lost[:4])}…): name them in `uses` too."
    )
