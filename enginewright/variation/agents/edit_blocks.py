"""Search/replace blocks: each must fit exactly one place, or nothing is changed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from enginewright.errors import UsageError


@dataclass(frozen=True, slots=True)
class Edit:
    """One block."""

    search: str
    """Text that stands in the file exactly once, to the character."""
    replace: str
    """What shall stand there."""


def apply_edits(text: str, edits: Sequence[Edit], *, path: str) -> str:
    """The text with every block replaced, in order.

    Raises: UsageError that says which block fits nowhere, or in several places, and what is near.
    """
    for number, edit in enumerate(edits, start=1):
        count = text.count(edit.search) if edit.search else 0
        if count == 1:
            text = text.replace(edit.search, edit.replace)
            continue
        what = f"{path}: edit {number} of {len(edits)}"
        if not edit.search:
            raise UsageError(f"{what}: `search` is empty", hint="write_file replaces a whole file")
        if count > 1:
            raise UsageError(
                f"{what}: `search` stands in {count} places", hint="add lines around it"
            )
        raise UsageError(f"{what}: `search` stands nowhere", hint=_nearest(text, edit.search))
    return text


def _nearest(text: str, wanted: str) -> str:
    lines = text.splitlines()
    first = next((line for line in wanted.splitlines() if line.strip()), "")
    close = difflib.get_close_matches(first, lines, n=1, cutoff=0.6)
    if not close:
        return "read the file again: no line is like its first line"
    return f"line {lines.index(close[0]) + 1} is {close[0]!r}"
