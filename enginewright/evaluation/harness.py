"""What the judge itself is made of: its digest stands beside every verdict, and a judge whose files
changed while it judged has judged nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOMS = ("evaluation", "target", "model")
"""The judge, the load generator among it, and what both read targets and models with."""


def harness_sha256(package: Path = PACKAGE) -> str:
    """Digest over the names and bytes of every source file of the judge's rooms.

    The load generator is one of them: both arms of a comparison meet the same one.
    """
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(package)} {content}\n".encode())
    return digest.hexdigest()
