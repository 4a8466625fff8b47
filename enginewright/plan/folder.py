"""A candidate as files: all that a builder needs, and nothing of its author."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from enginewright.errors import MachineError
from enginewright.plan.contracts import Library
from enginewright.plan.plan import Plan


def write_candidate(plan: Plan, library: Library, inputs: Path, folder: Path) -> None:
    """Write graph.json and tokenizer.json (from the folder `inputs`), plan.json and the sources of
    every kernel the plan names into `folder`.

    Raises: PlanError for an unknown kernel; MachineError if the disk refuses.
    """
    names = {group.kernel for step in plan.steps.values() for group in step.groups}
    files = {path for name in sorted(names) for path in library.named(name).files}
    try:
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        for name in ("graph.json", "tokenizer.json"):
            if inputs.resolve() != folder.resolve():
                shutil.copyfile(inputs / name, folder / name)
        for path in sorted(files):
            shutil.copyfile(path, folder / "kernels" / path.name)
        partial = folder / "plan.json.partial"
        partial.write_text(plan.to_json(), encoding="utf-8")
        partial.replace(folder / "plan.json")
    except OSError as error:
        is_full = error.errno == errno.ENOSPC
        raise MachineError(
            f"{folder}: cannot be written: {error}",
            hint="free some space" if is_full else "check that the folder can be written",
        ) from error
