"""Memory: what it holds outlives the process, and a damaged file is said, not swallowed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from enginewright.errors import ArchiveError
from enginewright.retention.memory import Lesson, Memory

LESSON = Lesson(
    signature="linear add/decode", hardware="h1", ops="linear add", step="decode",
    kernel="projections_q4_1_avx2", parameters={"TILE": 4}, speedup=5.0,
    speedup_low=4.5, speedup_high=5.5, run="r1", evidence="e1",
)  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "home/memory.sqlite")


def test_a_lesson_is_recalled_by_another_process(memory: Memory) -> None:
    memory.learn([LESSON])
    assert Memory(memory.path).recall(LESSON.signature, LESSON.hardware) == LESSON


def test_each_hardware_has_lessons_of_its_own(memory: Memory) -> None:
    other = replace(LESSON, hardware="h2", kernel="projections_q4_1_avx512")
    memory.learn([LESSON, other])
    assert memory.recall(LESSON.signature, "h1") == LESSON
    assert memory.recall(LESSON.signature, "h2") == other
    assert memory.recall(LESSON.signature, "h3") is None


def test_another_parameter_is_another_choice(memory: Memory) -> None:
    memory.learn([LESSON])
    memory.learn([replace(LESSON, run="r2")])
    memory.learn([replace(LESSON, run="r3", parameters={"TILE": 2})])
    held = memory.recall(LESSON.signature, LESSON.hardware)
    assert held is not None
    assert (held.parameters, held.confirmations, held.run) == ({"TILE": 2}, 1, "r3")


def test_the_newest_lesson_is_listed_first(memory: Memory) -> None:
    memory.learn([LESSON])
    memory.learn([replace(LESSON, signature="rope/decode")])
    assert [lesson.signature for lesson in memory.lessons()] == ["rope/decode", LESSON.signature]


def test_lessons_are_kept_all_or_none(memory: Memory) -> None:
    unwritable = replace(LESSON, signature="x", speedup=None)  # type: ignore[arg-type]
    with pytest.raises(ArchiveError):
        memory.learn([LESSON, unwritable])
    assert memory.lessons() == []


def test_lessons_from_before_intervals_are_kept_and_say_that_they_have_none(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    Memory(path).learn([LESSON])
    with closing(sqlite3.connect(path)) as file, file:
        for column in ("speedup_low", "speedup_high"):
            file.execute(f"ALTER TABLE lessons DROP COLUMN {column}")
    older = Memory(path)
    assert older.lessons() == [replace(LESSON, speedup_low=None, speedup_high=None)]
    older.learn([replace(LESSON, run="r2")])
    assert older.lessons() == [replace(LESSON, run="r2", confirmations=2)]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    path.write_bytes(b"not a database, and long enough to be read as one" * 100)
    with pytest.raises(ArchiveError, match=r"memory\.sqlite") as caught:
        Memory(path)
    assert caught.value.hint is not None
