"""Which line of a TOML file a key is on; the standard library's parser does not say."""

from __future__ import annotations

import re
from collections import Counter

KeyPath = tuple[str | int, ...]
"""Keys and, within arrays of tables, indices that lead to a value."""

_HEADER = re.compile(r"^\s*(\[\[|\[)\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def lines_by_path(text: str) -> dict[KeyPath, int]:
    """Line (from 1) of every header and key, by path; entries of arrays of tables by their index.

    What stands inside an inline table or array has no line of its own: that of the key it belongs
    to counts. The text must be valid TOML.
    """
    found: dict[KeyPath, int] = {}
    counts: Counter[KeyPath] = Counter()
    section: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            section = _resolve(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[section] += 1
                found.setdefault(section, number)
                section = (*section, counts[section] - 1)
            found.setdefault(section, number)
            continue
        key = _KEY.match(line)
        if key is not None:
            found.setdefault((*section, *_parts(key[1])), number)
    return found


class Places:
    """Names places of one target file for messages."""

    def __init__(self, file: str, text: str) -> None:
        """`text` is valid TOML."""
        self._file = file
        self._lines = lines_by_path(text)

    def at(self, path: KeyPath) -> str:
        """`file:line` of what a path leads to, or of what is around it and has a line."""
        for length in range(len(path), 0, -1):
            line = self._lines.get(path[:length])
            if line is not None:
                return f"{self._file}:{line}"
        return self._file


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _resolve(parts: tuple[str, ...], counts: Counter[KeyPath]) -> KeyPath:
    """The path of a header: arrays of tables on the way stand for their latest entry."""
    path: KeyPath = ()
    for part in parts[:-1]:
        path = (*path, part)
        if counts[path]:
            path = (*path, counts[path] - 1)
    return (*path, *parts[-1:])
