import random
import signal
import subprocess
import sys
import time

import pytest

from enginewright.errors import ArchiveError
from enginewright.retention import Archive, CandidateRecord, Point, Store, frontier, lineage


def _candidate(run, name, parent=None):
    return CandidateRecord(
        id=name, run=run, parent=parent, tactic="fuse_qkv", hypothesis="fewer barriers",
        predicted_effect=1.1, plan_sha256="0" * 64,
    )  # fmt: skip


class ArchiveContract:
    """What every archive must do. Subclass it and supply the `archive` fixture."""

    @pytest.fixture
    def archive(self):
        raise NotImplementedError

    def test_reopening_gives_back_the_same_history(self, archive):
        run = archive.start_run({"a": 1}, "digest").id
        trial = archive.add_candidate(_candidate(run, "a"), "search").id
        archive.note(run, "asked", {"candidate": "a"})
        again = archive.reopen()
        assert again.events(run) == archive.events(run) != []
        assert again.candidates(run) == [_candidate(run, "a")]
        assert [held.id for held in again.trials(run)] == [trial]
        assert again.unfinished_run("digest").id == run

    def test_a_finished_trial_cannot_finish_or_begin_again(self, archive):
        run = archive.start_run({}, "digest").id
        trial = archive.add_candidate(_candidate(run, "a"), "search").id
        archive.begin_trial(trial)
        archive.finish_trial(trial, "kept", reason="faster", evidence="e" * 64)
        with pytest.raises(ArchiveError, match="already finished"):
            archive.finish_trial(trial, "void", reason="noise", evidence="e" * 64)
        with pytest.raises(ArchiveError, match="already finished"):
            archive.begin_trial(trial)
        assert archive.trial(trial).verdict == "kept"

    def test_a_candidate_has_one_trial_of_a_stage(self, archive):
        run = archive.start_run({}, "digest").id
        archive.add_candidate(_candidate(run, "a"), "search")
        with pytest.raises(ArchiveError, match="UNIQUE"):
            archive.queue_trial("a", "search")
        archive.queue_trial("a", "confirm")

    def test_two_writers_lose_nothing(self, archive):
        run = archive.start_run({}, "digest").id
        other = archive.reopen()
        archive.note(run, "asked", {"candidate": "a"})
        other.note(run, "asked", {"candidate": "b"})
        assert [event.details["candidate"] for event in archive.events(run)] == ["a", "b"]

    def test_a_candidate_of_an_unknown_parent_is_refused_whole(self, archive):
        run = archive.start_run({}, "digest").id
        with pytest.raises(ArchiveError, match="FOREIGN KEY"):
            archive.add_candidate(_candidate(run, "a", parent="nobody"), "search")
        assert archive.candidates(run) == [] and archive.trials(run) == []


class TestSqliteArchive(ArchiveContract):
    @pytest.fixture
    def archive(self, tmp_path):
        return Archive(tmp_path / "archive.sqlite")


def test_a_file_that_is_no_archive_is_refused_with_a_hint(tmp_path):
    path = tmp_path / "archive.sqlite"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(ArchiveError, match="not a database") as caught:
        Archive(path)
    assert caught.value.hint


_WORKER = """
import sys
from pathlib import Path
from enginewright.retention import Archive, CandidateRecord, Store

folder = Path(sys.argv[1])
archive, store = Archive(folder / "archive.sqlite"), Store(folder / "store")
run = archive.unfinished_run("digest")
if run is None:
    if archive.runs():
        sys.exit()  # an earlier worker was quick enough to finish the run
    run = archive.start_run({}, "digest")
for number in range(12):
    name = f"c{number}"
    held = {trial.candidate: trial for trial in archive.trials(run.id)}
    trial = held.get(name) or archive.add_candidate(CandidateRecord(
        id=name, run=run.id, parent=f"c{number - 1}" if number else None, tactic="t",
        hypothesis="h", predicted_effect=1.0, plan_sha256=store.put(name.encode())), "search")
    if trial.state == "finished":
        continue
    archive.begin_trial(trial.id)
    archive.finish_trial(trial.id, "kept", reason="r", evidence=store.put(f"of {name}".encode()))
    with (folder / "done").open("a") as log:
        log.write(name + chr(10))
archive.finish_run(run.id)
"""


def test_killed_at_any_moment_nothing_finished_is_lost_or_repeated(tmp_path):
    chance = random.Random(7)
    command = [sys.executable, "-c", _WORKER, str(tmp_path)]
    for _ in range(3):
        worker = subprocess.Popen(command)
        time.sleep(chance.uniform(0.4, 1.2))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    archive = Archive(tmp_path / "archive.sqlite")
    if archive.unfinished_run("digest") or not archive.runs():
        subprocess.run(command, check=True)
    (run,) = {record.id for record in archive.runs() if archive.candidates(record.id)[11:]}
    trials = archive.trials(run)
    assert [trial.candidate for trial in trials] == [f"c{number}" for number in range(12)]
    assert {trial.verdict for trial in trials} == {"kept"}
    store = Store(tmp_path / "store")
    assert all(store.get(trial.evidence) for trial in trials)
    assert len(lineage(archive.candidates(run), "c11")) == 12
    lines = (tmp_path / "done").read_text().split()
    assert len(lines) == len(set(lines))


def test_damaged_content_is_noticed(tmp_path):
    store = Store(tmp_path)
    digest = store.put(b"content")
    assert store.get(digest) == b"content" and digest in store
    (tmp_path / digest[:2] / digest[2:]).write_bytes(b"other")
    with pytest.raises(ArchiveError, match="expected"):
        store.get(digest)


def test_the_frontier_keeps_what_nothing_beats():
    fast = Point(candidate="fast", latency_ms=1, tokens_per_s=10, memory_bytes=9)
    small = Point(candidate="small", latency_ms=2, tokens_per_s=10, memory_bytes=5)
    worse = Point(candidate="worse", latency_ms=2, tokens_per_s=9, memory_bytes=9)
    assert frontier([fast, small, worse]) == [fast, small]
