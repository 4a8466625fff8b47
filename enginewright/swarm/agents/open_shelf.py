"""The kernels of a run, as its archive has them: what was offered when it began stays offered."""

from __future__ import annotations

import json
from pathlib import Path

from enginewright.plan import Library
from enginewright.swarm.agents.home_kernels import Proven, offer, read_home_kernels
from enginewright.swarm.agents.inbox import handed_in, submission
from enginewright.swarm.agents.shelf import Shelf
from enginewright.swarm.run_folder import RunFolder
from enginewright.swarm.run_state import SEARCH, RunState
from enginewright.swarm.workbench import Say


def open_shelf(folder: RunFolder, state: RunState, base: Library, *, home: Path, say: Say) -> Shelf:
    """The project's kernels, those of the home folder when the run began, and all that became
    candidates of it.

    A kernel of the home folder whose evidence is of other bytes is passed over, and said so.

    Raises: ArchiveError, MachineError.
    """
    shelf = Shelf(folder.root / "kernels", base)
    held = state.last_event("adopted")
    if held is None:
        _adopt(shelf, state, home, say)
    else:
        for digest in held["kernels"].values():
            offer(shelf, Proven(**json.loads(state.store.get(digest))))
    taken = {
        event.details["submission"]
        for event in state.archive.events(state.run)
        if event.kind == "taken"
    }
    for one in handed_in(state):
        if one.digest in taken:
            shelf.add(submission(state, one).kernels)
    return shelf


def _adopt(shelf: Shelf, state: RunState, home: Path, say: Say) -> None:
    proven, passed_over = read_home_kernels(home, shelf.base.device)
    adopted: dict[str, str] = {}
    for one in proven:
        refused = offer(shelf, one)
        if refused is not None:
            passed_over.append(refused)
            continue
        told = {"name": one.name, "files": one.files, "evidence": one.evidence}
        adopted[one.name] = state.store.put(json.dumps(told, ensure_ascii=False).encode())
    for held in passed_over:
        say(f"kernel {held.name} of the home folder is passed over: {held.reason}")
    if adopted:
        say(f"{len(adopted)} kernels that agents wrote in earlier runs are offered")
    state.archive.note(
        state.run,
        "adopted",
        {"kernels": adopted, "passed_over": {held.name: held.reason for held in passed_over}},
    )


def offered_library(state: RunState, shelf: Shelf) -> Library:
    """What a search may choose from: all but kernels of agents that no kept candidate uses."""
    kept = {
        group.kernel
        for trial in state.trials(SEARCH)
        if trial.verdict == "kept"
        for step in state.plan(state.candidate(trial.candidate)).steps.values()
        for group in step.groups
    }
    submitted = {
        name.removesuffix(".rs")
        for event in state.archive.events(state.run)
        if event.kind == "submitted"
        for name in event.details["kernels"]
    }
    offered = {
        name: kernel
        for name, kernel in shelf.library.kernels.items()
        if name not in submitted or name in kept
    }
    return Library(folder=shelf.base.folder, kernels=offered, device=shelf.base.device)
