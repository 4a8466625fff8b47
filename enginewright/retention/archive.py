"""The record of what happened: SQLite in WAL mode, every change in a transaction of its own.

A writer takes the lock when it begins (BEGIN IMMEDIATE): what it read still holds when it writes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from enginewright.errors import ArchiveError
from enginewright.retention.records import (
    CandidateRecord,
    Event,
    RunRecord,
    RunState,
    TrialRecord,
    VerdictKind,
)

SCHEMA_VERSION = 1

_tables = sql.MetaData()
_schema = sql.Table("schema", _tables, sql.Column("version", sql.Integer, primary_key=True))
_runs = sql.Table(
    "runs",
    _tables,
    sql.Column("id", sql.Text, primary_key=True),
    sql.Column("target_sha256", sql.Text, nullable=False),
    sql.Column("target", sql.JSON, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("created_at", sql.Float, nullable=False),
)
_candidates = sql.Table(
    "candidates",
    _tables,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("id", sql.Text, nullable=False, unique=True),
    sql.Column("run", sql.ForeignKey("runs.id"), nullable=False),
    sql.Column("parent", sql.ForeignKey("candidates.id")),
    sql.Column("tactic", sql.Text, nullable=False),
    sql.Column("hypothesis", sql.Text, nullable=False),
    sql.Column("predicted_effect", sql.Float, nullable=False),
    sql.Column("plan_sha256", sql.Text, nullable=False),
)
_trials = sql.Table(
    "trials",
    _tables,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("id", sql.Text, nullable=False, unique=True),
    sql.Column("candidate", sql.ForeignKey("candidates.id"), nullable=False),
    sql.Column("stage", sql.Text, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("verdict", sql.Text),
    sql.Column("reason", sql.Text),
    sql.Column("evidence", sql.Text),
    sql.UniqueConstraint("candidate", "stage"),
)
_events = sql.Table(
    "events",
    _tables,
    sql.Column("sequence", sql.Integer, primary_key=True),
    sql.Column("run", sql.ForeignKey("runs.id"), nullable=False),
    sql.Column("at", sql.Float, nullable=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("details", sql.JSON, nullable=False),
)


class Archive:
    """Runs, candidates, trials and events. Several processes may hold it open."""

    def __init__(self, path: Path) -> None:
        """Open the archive at `path`; it is made if absent.

        Raises: ArchiveError if it cannot be opened, or is of another version.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be made: {error}") from error
        self._engine = sql.create_engine(
            f"sqlite:///{path}", poolclass=sql.NullPool, connect_args={"timeout": 60.0}
        )
        sql.event.listen(self._engine, "connect", _prepare_connection)
        sql.event.listen(self._engine, "begin", _begin_immediate)
        with self._writing() as connection:
            _tables.create_all(connection)
            version = connection.scalar(sql.select(_schema.c.version))
            if version is None:
                connection.execute(_schema.insert().values(version=SCHEMA_VERSION))
            elif version != SCHEMA_VERSION:
                raise ArchiveError(
                    f"{path}: schema version {version}; expected {SCHEMA_VERSION}",
                    hint="use the release that wrote it, or set ENGINEWRIGHT_HOME elsewhere",
                )

    def reopen(self) -> Archive:
        """The same archive, opened anew."""
        return Archive(self.path)

    @contextmanager
    def _writing(self) -> Iterator[sql.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.IntegrityError as error:
            raise ArchiveError(
                f"{self.path}: {error.orig}: a record breaks the archive's rules"
            ) from error
        except sql.exc.SQLAlchemyError as error:
            raise ArchiveError(
                f"{self.path}: {getattr(error, 'orig', None) or error}",
                hint="check that the disk has room and that the file is an archive",
            ) from error

    def start_run(self, target: dict[str, Any], target_sha256: str) -> RunRecord:
        """A new run."""
        record = RunRecord(
            id=f"r{uuid.uuid4().hex[:10]}",
            target_sha256=target_sha256,
            target=target,
            state="running",
            created_at=time.time(),
        )
        with self._writing() as connection:
            connection.execute(
                _runs.insert().values(
                    id=record.id,
                    target_sha256=target_sha256,
                    target=target,
                    state="running",
                    created_at=record.created_at,
                )
            )
        return record

    def finish_run(self, run: str, state: RunState = "finished") -> None:
        """End a run, as done or abandoned. Raises: ArchiveError if there is no such running run."""
        with self._writing() as connection:
            changed = connection.execute(
                _runs.update()
                .where(_runs.c.id == run, _runs.c.state == "running")
                .values(state=state)
            )
            if changed.rowcount != 1:
                raise ArchiveError(f"run `{run}` is not running, or not in the archive")

    def unfinished_run(self, target_sha256: str) -> RunRecord | None:
        """The latest run of this target that did not finish."""
        held = [
            run
            for run in self.runs()
            if run.state == "running" and run.target_sha256 == target_sha256
        ]
        return held[-1] if held else None

    def runs(self) -> list[RunRecord]:
        """All runs, the oldest first."""
        return [
            RunRecord(**row) for row in self._read(sql.select(_runs).order_by(_runs.c.created_at))
        ]

    def add_candidate(self, candidate: CandidateRecord, stage: str) -> TrialRecord:
        """A candidate and its queued trial, together or not at all. Its plan must be in the store.

        Raises: ArchiveError if the id is taken, or run or parent are absent.
        """
        trial_id = f"t{uuid.uuid4().hex[:10]}"
        held = {name: getattr(candidate, name) for name in CandidateRecord.__slots__}
        with self._writing() as connection:
            connection.execute(_candidates.insert().values(**held))
            _insert_trial(connection, trial_id, candidate.id, stage)
        return self.trial(trial_id)

    def queue_trial(self, candidate: str, stage: str) -> TrialRecord:
        """Another trial of a candidate. Raises: ArchiveError if it had one of this stage."""
        trial_id = f"t{uuid.uuid4().hex[:10]}"
        with self._writing() as connection:
            _insert_trial(connection, trial_id, candidate, stage)
        return self.trial(trial_id)

    def begin_trial(self, trial: str) -> None:
        """Mark a trial running; one that a dead process left running may begin again.

        Raises: ArchiveError if it is finished or absent.
        """
        with self._writing() as connection:
            changed = connection.execute(
                _trials.update()
                .where(_trials.c.id == trial, _trials.c.state != "finished")
                .values(state="running")
            )
            if changed.rowcount != 1:
                raise ArchiveError(f"trial `{trial}` is already finished, or not in the archive")

    def finish_trial(self, trial: str, verdict: VerdictKind, *, reason: str, evidence: str) -> None:
        """Keep a verdict. Raises: ArchiveError if the trial is not running."""
        with self._writing() as connection:
            changed = connection.execute(
                _trials.update()
                .where(_trials.c.id == trial, _trials.c.state == "running")
                .values(state="finished", verdict=verdict, reason=reason, evidence=evidence)
            )
            if changed.rowcount != 1:
                raise ArchiveError(
                    f"trial `{trial}` cannot finish: it is already finished, or did not begin"
                )

    def candidates(self, run: str) -> list[CandidateRecord]:
        """Candidates of a run, in the order proposed."""
        query = (
            sql.select(_candidates).where(_candidates.c.run == run).order_by(_candidates.c.number)
        )
        return [CandidateRecord(**_without_number(row)) for row in self._read(query)]

    def trials(self, run: str) -> list[TrialRecord]:
        """Trials of a run, in the order queued."""
        query = (
            sql.select(_trials)
            .join(_candidates, _candidates.c.id == _trials.c.candidate)
            .where(_candidates.c.run == run)
            .order_by(_trials.c.number)
        )
        return [TrialRecord(**_without_number(row)) for row in self._read(query)]

    def trial(self, trial: str) -> TrialRecord:
        """One trial. Raises: ArchiveError if it is absent."""
        rows = self._read(sql.select(_trials).where(_trials.c.id == trial))
        if not rows:
            raise ArchiveError(
                f"trial `{trial}` is not in the archive", hint="`enginewright log` lists them"
            )
        return TrialRecord(**_without_number(rows[0]))

    def candidate(self, candidate: str) -> CandidateRecord:
        """One candidate. Raises: ArchiveError if it is absent."""
        rows = self._read(sql.select(_candidates).where(_candidates.c.id == candidate))
        if not rows:
            raise ArchiveError(f"candidate `{candidate}` is not in the archive")
        return CandidateRecord(**_without_number(rows[0]))

    def note(self, run: str, kind: str, details: dict[str, Any]) -> None:
        """Add a line to the run's history."""
        with self._writing() as connection:
            connection.execute(
                _events.insert().values(run=run, at=time.time(), kind=kind, details=details)
            )

    def events(self, run: str) -> list[Event]:
        """The run's history."""
        query = sql.select(_events).where(_events.c.run == run).order_by(_events.c.sequence)
        return [Event(**row) for row in self._read(query)]

    def _read(self, query: sql.Select[Any]) -> list[dict[str, Any]]:
        with self._writing() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _insert_trial(connection: sql.Connection, trial: str, candidate: str, stage: str) -> None:
    connection.execute(
        _trials.insert().values(id=trial, candidate=candidate, stage=stage, state="queued")
    )


def _without_number(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "number"}


def _prepare_connection(connection: Any, _record: Any) -> None:
    # The driver would begin transactions by itself, and too late; `_begin_immediate` does it.
    connection.isolation_level = None
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin_immediate(connection: sql.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
