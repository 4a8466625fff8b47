"""Files by the digest of their content: written whole or not at all, never changed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from pathlib import Path

from enginewright.errors import ArchiveError, MachineError


class Store:
    """A folder of blobs, `ab/cdef…`, named by SHA-256."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Keep `content`; its digest. It is on the disk when this returns.

        Raises: MachineError if the disk is full or refuses.
        """
        digest = hashlib.sha256(content).hexdigest()
        place = self._place(digest)
        if place.exists():
            return digest
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".partial.", dir=place.parent)
            partial = Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(place)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            # The name, too, must outlive a power cut.
            for folder in (place.parent, self.folder):
                _sync_folder(folder)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise MachineError(
                f"{place}: cannot be written: {error}",
                hint="free some space" if is_full else "check that the folder can be written",
            ) from error
        return digest

    def get(self, digest: str) -> bytes:
        """The content behind a digest, checked.

        Raises: ArchiveError if it is absent or damaged.
        """
        place = self._place(digest)
        try:
            content = place.read_bytes()
        except OSError as error:
            raise ArchiveError(f"{place}: cannot be read: {error}") from error
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise ArchiveError(
                f"{place}: content has digest {found}; expected {digest}",
                hint="the file is damaged: remove it and run the trial again",
            )
        return content

    def __contains__(self, digest: str) -> bool:
        return self._place(digest).exists()

    def _place(self, digest: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ArchiveError(f"{digest!r} is no digest; expected 64 hexadecimal digits")
        return self.folder / digest[:2] / digest[2:]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
