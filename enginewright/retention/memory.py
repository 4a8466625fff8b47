"""What won, by kind of group and hardware: outlives runs, and is where a warm start begins.

A lesson is keyed by what a group is (its signature: ops, shapes, types, step), not by the model it
was found in, and by the processor features of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from enginewright.errors import ArchiveError

MEMORY_FILE = "memory.sqlite"
"""Its name in the home folder."""

_tables = sql.MetaData()
_lessons = sql.Table(
    "lessons",
    _tables,
    sql.Column("signature", sql.Text, primary_key=True),
    sql.Column("hardware", sql.Text, primary_key=True),
    sql.Column("ops", sql.Text, nullable=False),
    sql.Column("step", sql.Text, nullable=False),
    sql.Column("kernel", sql.Text, nullable=False),
    sql.Column("parameters", sql.JSON, nullable=False),
    sql.Column("speedup", sql.Float, nullable=False),
    sql.Column("run", sql.Text, nullable=False),
    sql.Column("evidence", sql.Text, nullable=False),
    sql.Column("confirmations", sql.Integer, nullable=False),
    sql.Column("learnt_at", sql.Float, nullable=False),
    sql.Column("speedup_low", sql.Float),
    sql.Column("speedup_high", sql.Float),
)
_ADDED = ("speedup_low", "speedup_high")
"""Columns that the first memories lacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One thing that won in a confirmed champion."""

    signature: str
    """Kind of group, or `settings/KIND` for what holds for a whole plan."""
    hardware: str
    """Digest of the processor's name and features."""
    ops: str
    """Op kinds, for people."""
    step: str
    """Step that it serves; empty for a whole plan."""
    kernel: str
    """Kernel that won; empty for a whole plan."""
    parameters: dict[str, Any]
    """Its parameters, or a whole plan's settings."""
    speedup: float
    """Of the confirmed champion over its naive engine: a measurement of the whole, not of the
    part."""
    speedup_low: float | None
    """Lower end of its 95 % interval; None in lessons that were kept before intervals were."""
    speedup_high: float | None
    """Upper end."""
    run: str
    """Run that confirmed it last."""
    evidence: str
    """Digest of the confirmation's evidence, in the store."""
    confirmations: int = 1
    """Runs that ended with the same choice."""


class Memory:
    """Lessons of all runs of this place, in SQLite beside the archive."""

    def __init__(self, path: Path) -> None:
        """Open the memory at `path`; it is made if absent. Raises: ArchiveError."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be made: {error}") from error
        self._engine = sql.create_engine(
            f"sqlite:///{path}", poolclass=sql.NullPool, connect_args={"timeout": 60.0}
        )
        with self._connection() as connection:
            _tables.create_all(connection)
            present = {column["name"] for column in sql.inspect(connection).get_columns("lessons")}
            for name in _ADDED:
                if name not in present:
                    connection.execute(sql.text(f"ALTER TABLE lessons ADD COLUMN {name} FLOAT"))

    @contextmanager
    def _connection(self) -> Iterator[sql.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.SQLAlchemyError as error:
            raise ArchiveError(
                f"{self.path}: {getattr(error, 'orig', None) or error}",
                hint="check that the disk has room; without the file every start is cold",
            ) from error

    def learn(self, lessons: Iterable[Lesson]) -> None:
        """Keep lessons, all or none. The newest confirmed choice for a kind of group stands;
        telling
        the lessons of a run again changes nothing."""
        with self._connection() as connection:
            for lesson in lessons:
                key = (
                    _lessons.c.signature == lesson.signature,
                    _lessons.c.hardware == lesson.hardware,
                )
                held = connection.execute(sql.select(_lessons).where(*key)).mappings().first()
                row = asdict(lesson) | {"learnt_at": time.time()}
                if held is None:
                    connection.execute(_lessons.insert().values(**row))
                    continue
                if held["run"] == lesson.run:
                    continue
                is_same = (held["kernel"], held["parameters"]) == (lesson.kernel, lesson.parameters)
                row["confirmations"] = held["confirmations"] + 1 if is_same else 1
                connection.execute(_lessons.update().where(*key).values(**row))

    def recall(self, signature: str, hardware: str) -> Lesson | None:
        """The lesson for a kind of group on this hardware, or None."""
        query = sql.select(_lessons).where(
            _lessons.c.signature == signature, _lessons.c.hardware == hardware
        )
        with self._connection() as connection:
            held = connection.execute(query).mappings().first()
        return None if held is None else _lesson(held)

    def lessons(self) -> list[Lesson]:
        """All of them, the newest first."""
        query = sql.select(_lessons).order_by(_lessons.c.learnt_at.desc(), _lessons.c.signature)
        with self._connection() as connection:
            return [_lesson(held) for held in connection.execute(query).mappings()]

    def forget(self) -> int:
        """Remove every lesson; how many there were."""
        with self._connection() as connection:
            return connection.execute(_lessons.delete()).rowcount


def _lesson(held: Any) -> Lesson:
    return Lesson(**{name: value for name, value in held.items() if name != "learnt_at"})
