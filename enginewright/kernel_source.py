"""A kernel's files and the processor it is compiled for: what planner and builder must agree on."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from enginewright.errors import MachineError, PlanError

_INCLUDE = re.compile(
    r'#\[path\s*=\s*"([^"]+)"\]'
    r'|include(?:_str|_bytes)?!\(\s*"([^"]+)"\s*\)'
    r'|^[ \t]*#[ \t]*include[ \t]*"([^"]+)"',
    re.MULTILINE,
)


def source_files(source: Path) -> list[Path]:
    """The kernel file and everything it includes, itself first, the rest by name.

    Raises: PlanError if one is missing or lies outside the kernel's folder.
    """
    folder = source.parent.resolve()
    found: dict[Path, None] = {}
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if not path.is_relative_to(folder):
            raise PlanError(
                f"{source}: includes {path}, outside its folder {folder}",
                hint="keep what a kernel includes beside it",
            )
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(
                f"{source}: needs {path}, which cannot be read: {error}",
                hint="the kernel library is incomplete",
            ) from error
        found[path] = None
        for match in _INCLUDE.finditer(text):
            waiting.append((path.parent / (match[1] or match[2] or match[3])).resolve())
    first, *rest = found
    return [first, *sorted(rest)]


def source_digest(source: Path) -> str:
    """SHA-256 over the names and bytes of the kernel file and its includes.

    Raises: PlanError as `source_files`.
    """
    digest = hashlib.sha256()
    for path in source_files(source):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def processor_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Features of the processor, as /proc/cpuinfo names them (`flags` on x86, `Features` on ARM).

    Raises: MachineError if the system does not say.
    """
    for name in ("flags", "Features"):
        value = _cpuinfo_field(cpuinfo, name)
        if value is not None:
            return frozenset(value.split())
    return frozenset()


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name of the processor, or `unknown` where the system gives none.

    Raises: MachineError if the system does not say.
    """
    return _cpuinfo_field(cpuinfo, "model name") or "unknown"


def _cpuinfo_field(cpuinfo: Path, name: str) -> str | None:
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError as error:
        raise MachineError(
            f"{cpuinfo}: cannot be read: {error}", hint="engines for CPUs are built on Linux"
        ) from error
    match = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else None
