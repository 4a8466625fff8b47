"""What the judge is given: a target and folders of files. Nothing says who made them, or why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from enginewright.errors import UsageError
from enginewright.evaluation.judge_settings import (
    JudgeSettings,
    settings_from_json,
    settings_to_json,
)
from enginewright.evaluation.sandbox import Sandbox
from enginewright.target import Machine, Target

FORMAT = "enginewright.judge/1"
Question = Literal["trial", "calibrate", "measure", "confirm"]
QUESTIONS: tuple[Question, ...] = ("trial", "calibrate", "measure", "confirm")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCase:
    """What all questions of a campaign have in common."""

    target: Target
    """What is asked for."""
    machine: Machine
    """What everything runs on."""
    program: Path
    """The host program that serves engine folders."""
    reference: Path
    """Engine folder of the reference engine, with `graph.json` and `tokenizer.json`."""
    checkpoint: Path
    """Folder of the weights."""
    weights: Path
    """What a baseline's `{checkpoint}` stands for: the file, or the folder around several."""
    threads: int
    """Threads of every engine."""
    sandbox: Sandbox | None
    """What engines run in; None trusts them."""
    settings: JudgeSettings
    """The rules."""

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        sandbox = self.sandbox
        return {
            "format": FORMAT,
            "target": self.target.model_dump(mode="json"),
            "machine": self.machine.to_json(),
            "program": str(self.program),
            "reference": str(self.reference),
            "checkpoint": str(self.checkpoint),
            "weights": str(self.weights),
            "threads": self.threads,
            "sandbox": None
            if sandbox is None
            else {"program": str(sandbox.program), "level": sandbox.level},
            "settings": settings_to_json(self.settings),
        }


def case_from_json(held: dict[str, Any]) -> JudgeCase:
    """The case that `JudgeCase.to_json` wrote.

    Raises: UsageError that names the field if something is missing or of the wrong kind.
    """
    if held.get("format") != FORMAT:
        raise UsageError(
            f"a judge's case has format {held.get('format')!r}; expected {FORMAT!r}",
            hint="docs/judge.md has the contract",
        )
    try:
        sandbox = held["sandbox"]
        return JudgeCase(
            target=Target.model_validate_json(json.dumps(held["target"])),
            machine=Machine.from_json(held["machine"]),
            program=Path(held["program"]),
            reference=Path(held["reference"]),
            checkpoint=Path(held["checkpoint"]),
            weights=Path(held["weights"]),
            threads=int(held["threads"]),
            sandbox=None
            if sandbox is None
            else Sandbox(program=Path(sandbox["program"]), level=sandbox["level"]),
            settings=settings_from_json(held["settings"]),
        )
    except KeyError as error:
        raise UsageError(
            f"a judge's case lacks {error}", hint="docs/judge.md has the contract"
        ) from error
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"a judge's case cannot be read: {error}", hint="docs/judge.md has the contract"
        ) from error
