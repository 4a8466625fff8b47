"""From a candidate folder to an engine folder: every kernel compiled, once for each set of
constants.

A candidate is graph.json, tokenizer.json, plan.json and kernels/*.rs; nothing else is looked at.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.errors import MachineError, PlanError
from enginewright.evaluation.compile import CompileFailure, Job, compile_object, object_key
from enginewright.evaluation.compile_cuda import compile_cubin, cubin_key
from enginewright.evaluation.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class _Toolchain:
    """What makes objects for one kind of device."""

    source_suffix: str
    object_suffix: str
    key: Callable[[Job], str]
    compile: Callable[[Job, Path, Sandbox | None], CompileFailure | None]


_TOOLCHAINS = {
    "cpu": _Toolchain(
        source_suffix=".rs", object_suffix=".so", key=object_key, compile=compile_object
    ),
    "cuda": _Toolchain(
        source_suffix=".cu", object_suffix=".cubin", key=cubin_key, compile=compile_cubin
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An engine folder that is whole."""

    engine: Path
    """The folder."""
    fingerprint: str
    """SHA-256 over graph, plan, objects and host program."""
    objects: dict[str, str]
    """Object hash by `step/group id`."""
    compiled: int
    """Objects that were not in the cache."""
    seconds: float
    """Wall time of the build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBuilt:
    """Why the candidate is no engine. It is the candidate's fault, not the machine's."""

    kernel: str
    """Name of the kernel that does not compile, or empty if the plan itself is at fault."""
    reason: str
    """One line."""
    log: str
    """First lines of the compiler."""


BuildResult = Built | NotBuilt


def build_engine(
    candidate: Path,
    engine: Path,
    object_cache: Path,
    features: frozenset[str],
    *,
    host_program: Path | None = None,
    sandbox: Sandbox | None = None,
) -> BuildResult:
    """Build `candidate` into the folder `engine`, which appears whole or not at all (an old one is
    replaced).

    `features` are the processor's; a plan that requires more is refused before anything is
    compiled.
    `host_program` enters the fingerprint; compilers run in `sandbox`, if given.

    Raises: MachineError if there is no compiler, or the disk is full or refuses.
    """
    start = time.monotonic()
    with _disk_errors(engine):
        try:
            plan = _read_plan(candidate / "plan.json")
            tools = _toolchain(plan)
            jobs = _jobs(plan, candidate / "kernels", tools)
            missing = sorted(set(plan["requires"]) - features)
            if missing:
                return _refused(f"the processor lacks {', '.join(missing)}")
            keys = {job: tools.key(job) for job in jobs.values()}
        except PlanError as error:
            return _refused(str(error))
        object_cache.mkdir(parents=True, exist_ok=True)
        absent = {
            key: job for job, key in keys.items() if not _cached(object_cache, key, tools).exists()
        }
        failure = _compile_all(absent, object_cache, tools, sandbox)
        if failure is not None:
            return NotBuilt(kernel=failure.kernel, reason=failure.reason, log=failure.log)
        objects = {place: keys[job] for place, job in jobs.items()}
        _name_objects(plan, objects)
        fingerprint = _assemble(plan, candidate, engine, object_cache, host_program)
    return Built(
        engine=engine,
        fingerprint=fingerprint,
        objects=objects,
        compiled=len(absent),
        seconds=time.monotonic() - start,
    )


def _refused(reason: str) -> NotBuilt:
    return NotBuilt(kernel="", reason=reason, log="")


@contextmanager
def _disk_errors(engine: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{engine}: cannot be built: {error}",
            hint="free some space"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "check that the folders can be written",
        ) from error


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        groups = [group for step in plan["steps"].values() for group in step["groups"]]
        is_whole = isinstance(plan["requires"], list) and all(
            isinstance(group["kernel"], str)
            and isinstance(group["id"], str)
            and all(isinstance(text, str) for text in group["constants"].values())
            for group in groups
        )
    except FileNotFoundError as error:
        raise PlanError(f"{path}: is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanError(f"{path}: is no plan: {error!r}") from error
    if not is_whole:
        raise PlanError(f"{path}: is no plan: `requires`, kernels, ids or constants are malformed")
    return dict(plan)


def _toolchain(plan: dict[str, Any]) -> _Toolchain:
    device = plan.get("device", "cpu")
    if device not in _TOOLCHAINS:
        raise PlanError(f"device {device!r}: expected one of {', '.join(_TOOLCHAINS)}")
    return _TOOLCHAINS[device]


def _jobs(plan: dict[str, Any], kernels: Path, tools: _Toolchain) -> dict[str, Job]:
    jobs = {}
    for step_name, step in plan["steps"].items():
        for group in step["groups"]:
            name = group["kernel"]
            if not name.replace("_", "").isalnum():
                raise PlanError(f"kernel name {name!r}: expected letters, digits and _")
            constants = tuple(sorted(group["constants"].items()))
            jobs[f"{step_name}/{group['id']}"] = Job(
                source=kernels / f"{name}{tools.source_suffix}", constants=constants
            )
    return jobs


def _name_objects(plan: dict[str, Any], objects: dict[str, str]) -> None:
    for step_name, step in plan["steps"].items():
        for group in step["groups"]:
            group["object"] = objects[f"{step_name}/{group['id']}"]


def _cached(object_cache: Path, key: str, tools: _Toolchain) -> Path:
    return object_cache / f"{key}{tools.object_suffix}"


def _compile_all(
    absent: dict[str, Job], object_cache: Path, tools: _Toolchain, sandbox: Sandbox | None
) -> CompileFailure | None:
    """Compile in parallel; the first failure in order of the plan."""
    if not absent:
        return None
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        results = list(
            pool.map(
                lambda item: tools.compile(item[1], _cached(object_cache, item[0], tools), sandbox),
                absent.items(),
            )
        )
    return next((result for result in results if result is not None), None)


def _assemble(
    plan: dict[str, Any],
    candidate: Path,
    engine: Path,
    object_cache: Path,
    host_program: Path | None,
) -> str:
    """Put the folder together beside its place, then move it there; its fingerprint."""
    tools = _toolchain(plan)
    engine.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{engine.name}.", dir=engine.parent))
    try:
        partial.chmod(0o755)
        (partial / "kernels").mkdir()
        for name in ("graph.json", "tokenizer.json"):
            shutil.copyfile(candidate / name, partial / name)
        (partial / "plan.json").write_text(
            json.dumps(plan, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        groups = [group for step in plan["steps"].values() for group in step["groups"]]
        for key in sorted({group["object"] for group in groups}):
            made = _cached(object_cache, key, tools)
            shutil.copyfile(made, partial / "kernels" / made.name)
        fingerprint = engine_fingerprint(partial, host_program)
        if engine.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{engine.name}.old.", dir=engine.parent))
            engine.replace(old / engine.name)
            partial.replace(engine)
            shutil.rmtree(old)
        else:
            partial.replace(engine)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return fingerprint


def engine_fingerprint(engine: Path, host_program: Path | None) -> str:
    """SHA-256 over the names and bytes of graph.json, plan.json, every object and the host
    program."""
    digest = hashlib.sha256()
    files = [
        engine / "graph.json",
        engine / "plan.json",
        *sorted((engine / "kernels").iterdir()),
    ]
    if host_program is not None:
        files.append(host_program)
    for path in files:
        with path.open("rb") as handle:
            content = hashlib.file_digest(handle, "sha256").hexdigest()
        digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()
