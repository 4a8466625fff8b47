"""One at a time: whoever measures on this machine holds a lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enginewright.errors import MachineError
from enginewright.swarm.run_folder import disk_errors

LOCK_FILE = "device.lock"
"""Its name in the home folder."""
_POLL_SECONDS = 0.05


class DeviceLock:
    """A file lock. It is not held twice by one thread: who holds it must not ask again."""

    def __init__(self, path: Path, *, patience_seconds: float = 1800.0) -> None:
        """`patience_seconds`: how long to wait for others before giving up."""
        self._path = path
        self._patience = patience_seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs, nobody else measures.

        Raises: MachineError if others hold it for too long, or the disk refuses.
        """
        with disk_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._wait(handle)
            yield
        finally:
            os.close(handle)

    def _wait(self, handle: int) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise MachineError(
                        f"{self._path}: another process has measured here for more than "
                        f"{self._patience:.0f} s",
                        hint="wait for it, then try again",
                    ) from error
                time.sleep(_POLL_SECONDS)
            else:
                return
