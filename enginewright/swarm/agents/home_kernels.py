"""Kernels of agents that won a run: kept in the home folder with their evidence, and offered to
every later run.

```
HOME/kernels/cpu/<kernel>/     *.rs, what the agent wrote
                               evidence.json
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.errors import EnginewrightError
from enginewright.plan import Library
from enginewright.retention import CandidateRecord
from enginewright.swarm.agents.shelf import Shelf
from enginewright.swarm.run import Run
from enginewright.swarm.run_folder import write_json, write_text
from enginewright.swarm.run_state import CONFIRM, SEARCH
from enginewright.swarm.warm_start import hardware_key

FORMAT = "enginewright.kernel/1"


def home_folder(home: Path, device: str) -> Path:
    """Where kernels for a kind of device lie."""
    return home / "kernels" / device


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """A kernel of the home folder."""

    name: str
    """Its name in plans."""
    files: Mapping[str, str]
    """Text by file name."""
    evidence: Mapping[str, Any]
    """What stands in evidence.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """One that is not offered, and why."""

    name: str
    """Its folder."""
    reason: str
    """For people."""


def read_home_kernels(home: Path, device: str) -> tuple[list[Proven], list[PassedOver]]:
    """All kernels of the home folder by name, and those that cannot be read."""
    found: list[Proven] = []
    passed_over: list[PassedOver] = []
    place = home_folder(home, device)
    for folder in sorted(place.iterdir()) if place.is_dir() else ():
        if folder.name.startswith("."):
            continue
        try:
            evidence = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
            if evidence["format"] != FORMAT:
                raise ValueError(f"format {evidence['format']!r}; expected {FORMAT}")
            files = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.rs")}
            found.append(Proven(name=evidence["kernel"], files=files, evidence=evidence))
        except (OSError, ValueError, KeyError, TypeError) as error:
            passed_over.append(PassedOver(name=folder.name, reason=f"cannot be read: {error!r}"))
    return found, passed_over


def offer(shelf: Shelf, proven: Proven) -> PassedOver | None:
    """Put one on a run's shelf; why not, if its evidence is of other bytes.

    What a kernel includes of the library may have changed since: then nobody has shown that it
    computes the same, or is fast.
    """
    try:
        kernels = {kernel.name: kernel for kernel in shelf.place(proven.files)}
    except EnginewrightError as error:
        return PassedOver(name=proven.name, reason=error.message)
    held = kernels.get(proven.name)
    if held is None:
        return PassedOver(name=proven.name, reason="its files hold no such kernel")
    if held.source_sha256 != proven.evidence["source_sha256"]:
        return PassedOver(
            name=proven.name, reason="files that it includes have changed since it was proven"
        )
    shelf.add(proven.files)
    return None


def keep_winning_kernels(run: Run, result: Mapping[str, Any], home: Path) -> list[str]:
    """Put the kernels that agents wrote and the confirmed champion uses into the home folder; their
    names.

    Raises: MachineError if the disk refuses.
    """
    champion = run.state.champion()
    plan = run.state.plan(champion)
    used = {group.kernel for step in plan.steps.values() for group in step.groups}
    library: Library = run.subject.library
    place = home_folder(home, library.device)
    kept = []
    for name, author in _authors(run).items():
        if name not in used or (place / name / "evidence.json").exists():
            continue
        kernel = library.named(name)
        own = {path.name: path for path in kernel.files if path.stem.endswith(name[-9:])}
        for file, path in own.items():
            write_text(place / name / file, path.read_text(encoding="utf-8"))
        # Last: a folder without it is not read.
        write_json(
            place / name / "evidence.json",
            {
                "format": FORMAT,
                "kernel": name,
                "source_sha256": kernel.source_sha256,
                "agent": author.tactic,
                "hypothesis": author.hypothesis,
                "run": run.state.run,
                "candidate": author.id,
                "trial": _evidence(run, author, SEARCH),
                "confirmation": _evidence(run, champion, CONFIRM),
                "champion": champion.id,
                "speedup_over_naive": result["speedup"],
                "hardware": hardware_key(run.subject),
                "processor": run.subject.machine.processor,
            },
        )
        kept.append(name)
    return kept


def _authors(run: Run) -> dict[str, CandidateRecord]:
    """The first candidate with each kernel that came in by a submission of this run."""
    found: dict[str, CandidateRecord] = {}
    submitted = {
        name.removesuffix(".rs")
        for event in run.state.archive.events(run.state.run)
        if event.kind == "submitted"
        for name in event.details["kernels"]
    }
    for candidate in run.state.archive.candidates(run.state.run):
        plan = run.state.plan(candidate)
        for step in plan.steps.values():
            for group in step.groups:
                if group.kernel in submitted:
                    found.setdefault(group.kernel, candidate)
    return found


def _evidence(run: Run, candidate: CandidateRecord, stage: str) -> str | None:
    """Digest of what is behind the verdict, in the store."""
    trials = [trial for trial in run.state.trials(stage) if trial.candidate == candidate.id]
    return trials[-1].evidence if trials else None
