"""The kernels of a run: the library, what earlier runs proved, and what agents hand in.

Files of agents carry the digest of their bytes in their names and are never changed, so several
processes may put the same one there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from enginewright.errors import PlanError
from enginewright.kernel_source import source_digest
from enginewright.plan import Kernel, Library
from enginewright.plan.contracts import SUFFIXES, read_contract
from enginewright.swarm.run_folder import disk_errors, write_text

MOST_INCLUDED_FILES = 64
"""Files behind one kernel."""


class Shelf:
    """One run's kernels. `library` grows as kernels are added; whoever holds it sees them."""

    def __init__(self, folder: Path, base: Library) -> None:
        """`folder` is made when the first kernel beyond `base` is placed there."""
        self._folder = folder
        self._base = base
        self._held: dict[str, Kernel] = dict(base.kernels)
        self.library = Library(folder=base.folder, kernels=self._held, device=base.device)

    @property
    def base(self) -> Library:
        """The project's own kernels."""
        return self._base

    @property
    def added(self) -> dict[str, Kernel]:
        """Kernels beyond the project's own, by name."""
        return {name: held for name, held in self._held.items() if name not in self._base}

    def add(self, files: Mapping[str, str]) -> list[Kernel]:
        """Place files and offer their kernels to the whole run.

        Raises: PlanError if a contract is wrong; MachineError if the disk refuses.
        """
        kernels = self.place(files)
        self._held.update((kernel.name, kernel) for kernel in kernels)
        return kernels

    def draft(self, files: Mapping[str, str]) -> Library:
        """The library with these files' kernels too, for whoever holds it alone.

        Raises: as `add`.
        """
        drafted = {kernel.name: kernel for kernel in self.place(files)}
        return Library(folder=self._folder, kernels=self._held | drafted, device=self._base.device)

    def place(self, files: Mapping[str, str]) -> list[Kernel]:
        """Write files beside a copy of the library; their kernels. Raises: as `add`."""
        if not files:
            return []
        self._copy_base()
        for name, text in files.items():
            if not (self._folder / name).exists():
                write_text(self._folder / name, text)
        kernels = []
        for name in sorted(files):
            source = self._folder / name
            contract = read_contract(source)
            if contract is None:
                continue
            kernel = Kernel(contract=contract, source=source, source_sha256=source_digest(source))
            self._check_includes(kernel, files)
            kernels.append(kernel)
        return kernels

    def _check_includes(self, kernel: Kernel, files: Mapping[str, str]) -> None:
        """A kernel rests on the library and on what was handed in with it, nothing else."""
        included = [path.name for path in kernel.files]
        if len(included) > MOST_INCLUDED_FILES:
            raise PlanError(f"{kernel.name}: includes {len(included)} files")
        foreign = [
            name
            for name in included
            if name not in files and not (self._base.folder / name).is_file()
        ]
        if foreign:
            raise PlanError(
                f"{kernel.name}: includes {foreign[0]}, which is neither the library's nor handed "
                "in with it"
            )

    def _copy_base(self) -> None:
        if self._folder.exists():
            return
        with disk_errors(self._folder):
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=".kernels.", dir=self._folder.parent))
            try:
                for source in sorted(self._base.folder.glob(f"*{SUFFIXES[self._base.device]}")):
                    shutil.copyfile(source, partial / source.name)
                partial.chmod(0o755)
                partial.rename(self._folder)
            except OSError:
                shutil.rmtree(partial, ignore_errors=True)
                if not self._folder.exists():
                    raise
