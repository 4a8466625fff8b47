"""The signed record: whatever is changed in it shows, and where."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from enginewright.errors import ArchiveError
from enginewright.retention import Store, TrialRecord, check_ledger, ledger_of, open_ledger
from enginewright.retention.ledger import KEY_FILE, open_key, public_key


def finished(number: int, store: Store, *, verdict: str = "rejected") -> TrialRecord:
    evidence = store.put(json.dumps({"samples": [number]}).encode())
    return TrialRecord(
        id=f"t{number}", candidate=f"c{number}", stage="search", state="finished",
        verdict=verdict, reason=f"reason {number}", evidence=evidence,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def trials(tmp_path: Path, store: Store) -> list[TrialRecord]:
    """Three verdicts, signed."""
    held = [finished(number, store) for number in range(3)]
    ledger = open_ledger(tmp_path, "r1")
    for trial in held:
        ledger.sign("r1", trial)
    return held


def flaws(tmp_path: Path, trials: list[TrialRecord], store: Store, key: str | None = None) -> Any:
    found = check_ledger(ledger_of(tmp_path, "r1"), trials, store, key=key)
    return [(flaw.trial, flaw.what) for flaw in found]


def rewrite(tmp_path: Path, change: Any) -> None:
    ledger = ledger_of(tmp_path, "r1")
    lines = ledger.lines()
    changed = change(lines)
    ledger.path.write_text("".join(json.dumps(line) + "\n" for line in changed or lines))


def test_an_honest_record_has_no_flaw_and_names_its_signer(
    tmp_path: Path, trials: list[TrialRecord], store: Store
) -> None:
    signer = public_key(open_key(tmp_path))
    assert flaws(tmp_path, trials, store, key=signer) == []
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def test_signing_again_adds_nothing(
    tmp_path: Path, trials: list[TrialRecord], store: Store
) -> None:
    open_ledger(tmp_path, "r1").sign("r1", trials[0])
    assert len(ledger_of(tmp_path, "r1").lines()) == 3


def test_a_changed_sample_is_found(tmp_path: Path, trials: list[TrialRecord], store: Store) -> None:
    digest = trials[1].evidence or ""
    (store.folder / digest[:2] / digest[2:]).write_text('{"samples": [9]}')
    ((trial, what),) = flaws(tmp_path, trials, store)
    assert trial == "t1" and "content has digest" in what


def test_a_changed_verdict_is_found_in_the_line_and_in_the_archive(
    tmp_path: Path, trials: list[TrialRecord], store: Store
) -> None:
    rewrite(tmp_path, lambda lines: lines[1].update(verdict="kept"))
    found = flaws(tmp_path, trials, store)
    assert ("t1", "the signature does not fit the line") in found
    assert ("t1", "the archive has another verdict than was signed") in found
    # The line behind it named the honest one.
    assert ("t2", "does not follow the line before: one was dropped or moved") in found


def test_a_dropped_line_is_found(tmp_path: Path, trials: list[TrialRecord], store: Store) -> None:
    rewrite(tmp_path, lambda lines: [lines[0], lines[2]])
    assert flaws(tmp_path, trials, store) == [
        ("t2", "does not follow the line before: one was dropped or moved"),
        ("t1", "has a verdict in the archive, but no line"),
    ]


def test_exchanged_lines_are_found(tmp_path: Path, trials: list[TrialRecord], store: Store) -> None:
    rewrite(tmp_path, lambda lines: [lines[1], lines[0], lines[2]])
    assert {trial for trial, _ in flaws(tmp_path, trials, store)} == {"t0", "t1", "t2"}


def test_a_record_signed_anew_by_another_is_found(
    tmp_path: Path, trials: list[TrialRecord], store: Store
) -> None:
    honest = public_key(open_key(tmp_path))
    (tmp_path / KEY_FILE).unlink()
    ledger_of(tmp_path, "r1").path.unlink()
    forged = open_ledger(tmp_path, "r1")
    for trial in trials:
        forged.sign("r1", trial)
    assert flaws(tmp_path, trials, store) == []
    assert [what for _, what in flaws(tmp_path, trials, store, key=honest)] == [
        "signed by another key"
    ] * 3


def test_a_verdict_that_was_never_given_is_found(
    tmp_path: Path, trials: list[TrialRecord], store: Store
) -> None:
    assert flaws(tmp_path, trials[:2], store) == [("t2", "is not in the archive")]
    added = [*trials, finished(3, store, verdict="kept")]
    assert flaws(tmp_path, added, store) == [("t3", "has a verdict in the archive, but no line")]


def test_a_file_that_holds_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("short")
    with pytest.raises(ArchiveError, match=r"judge\.key"):
        open_key(tmp_path)
