"""One agent's files. What it may read and write is decided here, not by what it is told.

```
WORKSPACE/
  README.md        how kernels are written; for reading
  plan.json        the champion's plan; for reading
  change.json      what shall be done otherwise; the agent's
  kernels/*.rs     the library's files, for reading, and the agent's own beside them
```
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from enginewright.errors import UsageError

MOST_FILE_BYTES = 256 << 10
"""Size of one file."""
MOST_FILES = 32
"""An agent's own files."""
MOST_BYTES = 1 << 20
"""Size of an agent's own files together."""
CHANGE = "change.json"
PLAN = "plan.json"
GUIDE = "README.md"
KERNELS = "kernels"
EMPTY_CHANGE = '{\n "uses": [],\n "settings": {}\n}\n'

_MOST_READ_BYTES = 64 << 20
_KERNEL_NAME = re.compile(r"[a-z][a-z0-9_]{2,63}\.rs")


class Workspace:
    """A folder with the library's kernels and the agent's own files.

    Every path goes through `_place`: relative, below the folder, without links, and by name one of
    the few files that there may be. Sizes and counts are bounded when a file is written, and again
    when a submission is read: a guest writes without us.
    """

    def __init__(self, root: Path, library: Iterable[str]) -> None:
        """`root` exists; `library` are the names of the files in `kernels/` that are not the
        agent's."""
        self.root = root
        self._library = frozenset(library)

    @classmethod
    def make(cls, root: Path, sources: Iterable[Path], *, plan: str, guide: str) -> Workspace:
        """Lay out a workspace, or freshen an old one: the agent's own files stay as they are.

        Raises: UsageError if something that is no folder stands in its place.
        """
        kernels = root / KERNELS
        for folder in (root, kernels):
            if folder.is_symlink():
                raise UsageError(f"{folder} is a link", hint="remove it")
            folder.mkdir(parents=True, exist_ok=True)
        names = []
        for source in sources:
            names.append(source.name)
            _replace(kernels / source.name, source.read_text(encoding="utf-8"))
        made = cls(root, names)
        _replace(root / PLAN, plan)
        _replace(root / GUIDE, guide)
        if not (root / CHANGE).exists():
            _replace(root / CHANGE, EMPTY_CHANGE)
        return made

    def remove(self) -> None:
        """Delete it."""
        shutil.rmtree(self.root, ignore_errors=True)

    def listing(self) -> list[tuple[str, int, bool]]:
        """Path, size in bytes and whether it is the agent's, of every file that may be read."""
        names = [
            GUIDE,
            PLAN,
            CHANGE,
            *(f"{KERNELS}/{name}" for name in sorted(self._kernel_names())),
        ]
        return [
            (name, (self.root / name).lstat().st_size, self._is_own(name))
            for name in names
            if (self.root / name).exists()
        ]

    def read(self, path: str) -> str:
        """The text of a file.

        Raises: UsageError if there is none, or it is none of the workspace's.
        """
        return self._read(self._place(path), path)

    def write(self, path: str, text: str) -> None:
        """Write a file of the agent's, whole.

        Raises: UsageError if it is not the agent's to write, too large, one too many, or no text.
        """
        place = self._place(path)
        if not self._is_own(path):
            raise UsageError(
                f"{path} is not yours to write",
                hint="copy what you need into a file of a new name, kernels/NAME.rs",
            )
        size = len(text.encode())
        if size > MOST_FILE_BYTES:
            raise UsageError(f"{path}: {size:,} bytes; expected at most {MOST_FILE_BYTES:,}")
        if "\0" in text:
            raise UsageError(f"{path}: has a NUL character; expected text")
        others = {name: held for name, held in self._own_sizes().items() if name != path}
        if path not in self._own_sizes() and len(others) >= MOST_FILES:
            raise UsageError(f"{path}: you have {MOST_FILES} files already", hint="reuse one")
        if sum(others.values()) + size > MOST_BYTES:
            raise UsageError(f"{path}: your files together would exceed {MOST_BYTES:,} bytes")
        _replace(place, text)

    def own_files(self) -> dict[str, str]:
        """The agent's kernel files by name, checked anew.

        Raises: UsageError for a link, a folder, a file too large, too many, or no text.
        """
        names = [name for name in sorted(self._kernel_names()) if name not in self._library]
        if len(names) > MOST_FILES:
            raise UsageError(f"{KERNELS}/ has {len(names)} files of yours; at most {MOST_FILES}")
        texts = {name: self.read(f"{KERNELS}/{name}") for name in names}
        total = sum(len(text.encode()) for text in texts.values())
        if total > MOST_BYTES:
            raise UsageError(f"your files have {total:,} bytes; expected at most {MOST_BYTES:,}")
        return texts

    def _kernel_names(self) -> list[str]:
        # What an editor hides is nobody's kernel.
        found = (entry.name for entry in os.scandir(self.root / KERNELS))
        names = [name for name in found if not name.startswith(".")]
        strange = [name for name in names if not _is_allowed(name, self._library)]
        if strange:
            raise UsageError(
                f"{KERNELS}/{min(strange)!r} may not be there",
                hint="kernel files are called kernels/NAME.rs: lower case letters, digits and _",
            )
        return names

    def _own_sizes(self) -> dict[str, int]:
        return {name: size for name, size, is_own in self.listing() if is_own}

    def _is_own(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return path == CHANGE or (folder == KERNELS and name not in self._library)

    def _place(self, path: str) -> Path:
        """Where a path lies, if an agent may know of it at all."""
        pure = PurePosixPath(path)
        is_plain = "\\" not in path and "\0" not in path and str(pure) == path
        if not is_plain or pure.is_absolute() or ".." in pure.parts:
            raise UsageError(
                f"path {path!r} is not a plain relative path", hint="for example kernels/NAME.rs"
            )
        is_known = path in (GUIDE, PLAN, CHANGE) or (
            len(pure.parts) == 2
            and pure.parts[0] == KERNELS
            and _is_allowed(pure.parts[1], self._library)
        )
        if not is_known:
            raise UsageError(
                f"path {path!r} is none of this workspace",
                hint=f"there are {GUIDE}, {PLAN}, {CHANGE} and {KERNELS}/NAME.rs",
            )
        for folder in (self.root, self.root / KERNELS):
            if folder.is_symlink():
                raise UsageError(f"{folder.name}/ is a link", hint="links are not followed")
        return self.root / path

    def _read(self, place: Path, path: str) -> str:
        try:
            # Not followed if it is a link, not waited for if it is a pipe.
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise UsageError(
                f"there is no {path}", hint="list_files shows what there is"
            ) from error
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", hint="links are not followed") from error
        most = MOST_FILE_BYTES if self._is_own(path) else _MOST_READ_BYTES
        try:
            held = os.fstat(handle)
            if not stat.S_ISREG(held.st_mode) or held.st_nlink > 1:
                raise UsageError(f"{path} is no plain file of one name")
            with os.fdopen(os.dup(handle), "rb") as file:
                content = file.read(most + 1)
        finally:
            os.close(handle)
        if len(content) > most:
            raise UsageError(f"{path}: more than {most:,} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from error


def _is_allowed(name: str, library: frozenset[str]) -> bool:
    return name in library or _KERNEL_NAME.fullmatch(name) is not None


def _replace(place: Path, text: str) -> None:
    """Write beside the place, then move there: a link that stands there is replaced, not
    followed."""
    partial = place.with_name(f".{place.name}.partial")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(place)
