"""`enginewright memory`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.retention.memory import MEMORY_FILE, Lesson, Memory
from enginewright.settings import load_settings


def memory(
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove every lesson: the next start is cold.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List what won, by kind of group and hardware: where a warm start begins."""
    path = load_settings().home / MEMORY_FILE
    held = Memory(path) if path.exists() else None
    if forget:
        count = held.forget() if held is not None else 0
        if as_json:
            print_json({"forgotten": count})
        else:
            print(f"{count} lessons forgotten")
        return
    lessons = held.lessons() if held is not None else []
    if as_json:
        print_json({"lessons": [asdict(lesson) for lesson in lessons]})
        return
    if not lessons:
        print("memory is empty: a finished `enginewright build` fills it")
        return
    rows = (
        (
            lesson.step or "plan",
            lesson.ops,
            lesson.kernel or _short(lesson.parameters),
            _short(lesson.parameters) if lesson.kernel else "",
            _speedup(lesson),
            lesson.confirmations,
            lesson.run,
        )
        for lesson in lessons
    )
    columns = ("step", "group", "what won", "parameters", "whole engine", "runs", "last run")
    print_rows(columns, rows)


def _speedup(lesson: Lesson) -> str:
    if lesson.speedup_low is None or lesson.speedup_high is None:
        return f"{lesson.speedup:.2f}x"
    return f"{lesson.speedup:.2f}x ({lesson.speedup_low:.2f} to {lesson.speedup_high:.2f})"


def _short(parameters: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items())
