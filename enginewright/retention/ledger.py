"""A signed line for every verdict, each naming the one before: nothing can be changed, dropped,
added or put in another order without showing.

A line is JSON: what was decided, digest of the evidence, digest of the line before, public key and
Ed25519 signature (RFC 8032) over the line without it. The private key never leaves its file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from enginewright.errors import ArchiveError, MachineError
from enginewright.retention.records import TrialRecord
from enginewright.retention.store import Store

KEY_FILE = "judge.key"
"""Name of the private key's file, in the archive's folder."""
FIRST = "0" * 64
"""What the first line of a ledger names as the line before."""


def open_key(home: Path) -> Ed25519PrivateKey:
    """The key of this archive, made at first use, readable by its owner only.

    Raises: MachineError if it cannot be read or written; ArchiveError if the file holds no key.
    """
    path = home / KEY_FILE
    try:
        if not path.exists():
            home.mkdir(parents=True, exist_ok=True)
            made = Ed25519PrivateKey.generate()
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(made.private_bytes_raw())
            return made
        return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
    except OSError as error:
        raise MachineError(f"{path}: {error}", hint="check that the folder can be used") from error
    except ValueError as error:
        raise ArchiveError(
            f"{path}: holds no key: {error}",
            hint="move it away: a new one is made, and old verdicts are those of another judge",
        ) from error


class Ledger:
    """The lines of one run, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[dict[str, Any]]:
        """Every line, oldest first.

        Raises: ArchiveError if one is no JSON.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            raise ArchiveError(f"{self.path}: a line is no JSON: {error}") from error

    def append(
        self,
        key: Ed25519PrivateKey,
        *,
        run: str,
        trial: str,
        verdict: str,
        reason: str,
        evidence: str,
    ) -> None:
        """Sign a verdict and add it. The same trial is not added twice.

        Raises: MachineError if the disk refuses.
        """
        held = self.lines()
        if any(line["trial"] == trial for line in held):
            return
        line: dict[str, Any] = {
            "run": run,
            "trial": trial,
            "verdict": verdict,
            "reason": reason,
            "evidence": evidence,
            "previous": digest(held[-1]) if held else FIRST,
            "key": key.public_key().public_bytes_raw().hex(),
        }
        line["signature"] = key.sign(_signed(line)).hex()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise MachineError(f"{self.path}: {error}", hint="free some space") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedLedger:
    """A ledger with the key that signs it."""

    ledger: Ledger
    """Lines of one run."""
    key: Ed25519PrivateKey
    """The archive's."""

    def sign(self, run: str, trial: TrialRecord) -> None:
        """Add the line of a finished trial, unless it is there.

        Raises: MachineError if the disk refuses.
        """
        assert trial.evidence is not None, "a finished trial has evidence. This is a bug."
        self.ledger.append(
            self.key,
            run=run,
            trial=trial.id,
            verdict=str(trial.verdict),
            reason=trial.reason or "",
            evidence=trial.evidence,
        )


def open_ledger(home: Path, run: str) -> SignedLedger:
    """The ledger of a run in the archive at `home`.

    Raises: as `open_key`.
    """
    return SignedLedger(ledger=ledger_of(home, run), key=open_key(home))


def ledger_of(home: Path, run: str) -> Ledger:
    """The ledger of a run, to read."""
    return Ledger(home / "ledgers" / f"{run}.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Something that an honest ledger does not have."""

    trial: str
    """Where; empty for the ledger as a whole."""
    what: str
    """One line."""


def digest(line: dict[str, Any]) -> str:
    """SHA-256 of a line, signature and all."""
    return hashlib.sha256(_canonical(line)).hexdigest()


def check_ledger(
    ledger: Ledger, trials: Sequence[TrialRecord], store: Store, *, key: str | None
) -> list[Flaw]:
    """Every signature, every link of the chain, every piece of evidence, and that each finished
    trial of the archive has exactly its line.

    `key`: public key that must have signed, hexadecimal; None takes the first line's.
    """
    flaws: list[Flaw] = []
    previous = FIRST
    seen: dict[str, dict[str, Any]] = {}
    lines = ledger.lines()
    for line in lines:
        trial = str(line.get("trial", ""))
        if not _is_signed(line):
            flaws.append(Flaw(trial=trial, what="the signature does not fit the line"))
        wanted = key or lines[0].get("key")
        if line.get("key") != wanted:
            flaws.append(Flaw(trial=trial, what="signed by another key"))
        if line.get("previous") != previous:
            flaws.append(
                Flaw(trial=trial, what="does not follow the line before: one was dropped or moved")
            )
        previous = digest(line)
        if trial in seen:
            flaws.append(Flaw(trial=trial, what="stands twice"))
        seen[trial] = line
        flaws += _evidence_flaws(trial, str(line.get("evidence")), store)
    for record in trials:
        if record.state != "finished":
            continue
        held = seen.pop(record.id, None)
        if held is None:
            flaws.append(Flaw(trial=record.id, what="has a verdict in the archive, but no line"))
            continue
        for name in ("verdict", "reason", "evidence"):
            if held.get(name) != getattr(record, name):
                flaws.append(
                    Flaw(trial=record.id, what=f"the archive has another {name} than was signed")
                )
    flaws += [Flaw(trial=trial, what="is not in the archive") for trial in seen]
    return flaws


def _evidence_flaws(trial: str, evidence: str, store: Store) -> list[Flaw]:
    try:
        store.get(evidence)
    except ArchiveError as error:
        return [Flaw(trial=trial, what=f"evidence: {error.message}")]
    return []


def _is_signed(line: dict[str, Any]) -> bool:
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(line["key"]))
        public.verify(bytes.fromhex(line["signature"]), _signed(line))
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return False
    return True


def _signed(line: dict[str, Any]) -> bytes:
    return _canonical({name: value for name, value in line.items() if name != "signature"})


def _canonical(line: dict[str, Any]) -> bytes:
    return json.dumps(line, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def public_key(key: Ed25519PrivateKey) -> str:
    """Hexadecimal."""
    return key.public_key().public_bytes_raw().hex()
