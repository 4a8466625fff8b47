"""Inspect: the target's checkpoint, this machine, and the kernels there are."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from enginewright.errors import MachineError, TargetError
from enginewright.evaluation.acceptance import best_values
from enginewright.evaluation.floors import step_read_bytes, target_floors
from enginewright.model import Checkpoint, inspect_checkpoint, write_engine_inputs
from enginewright.plan import Allowed, load_library
from enginewright.settings import Settings
from enginewright.swarm.workbench import Subject
from enginewright.target import (
    LoadedTarget,
    Machine,
    check_possible,
    probe_machine,
    threads_for,
)


def read_subject(
    loaded: LoadedTarget, settings: Settings, say: Callable[[str], None]
) -> tuple[Subject, Checkpoint]:
    """Read everything a run depends on.

    Raises: CheckpointError, MachineError, PlanError; TargetError if target and model do not fit.
    """
    _check_tools(settings)
    target = loaded.target
    inspection, graph, checkpoint = inspect_checkpoint(
        target.model.checkpoint, sha256=target.model.sha256
    )
    _check_fit(loaded, graph.kind, graph.dimensions.context)
    say(
        f"{inspection.name}: {inspection.family} {inspection.kind}, "
        f"{inspection.parameters / 1e6:.1f}M parameters, "
        f"{sum(inspection.bytes_by_dtype.values()) / 2**20:.1f} MiB of weights"
    )
    read_bytes = step_read_bytes(graph, target)
    machine = probe_machine(settings.engine_program, read_bytes=read_bytes)
    threads = threads_for(target)
    say(
        f"{machine.processor}: {machine.cores} cores, "
        f"{machine.read_bytes_per_second(threads) / 1e9:.1f} GB/s read with {threads} threads"
        f"{_where_read(machine)}"
    )
    floors = target_floors(graph, target, machine)
    check_possible(target, best_values(target, floors), str(loaded.source))
    library = load_library(settings.kernels)
    subject = Subject(
        target=target,
        graph=graph,
        checkpoint=checkpoint.folder,
        checkpoint_sha256=checkpoint.sha256(),
        machine=machine,
        library=library,
        allowed=Allowed(features=machine.features, numerics=frozenset(target.numerics.allow)),
        threads=threads,
        digests={
            "target": loaded.sha256,
            "weights": checkpoint.sha256(),
            "graph": graph.sha256,
            "kernels": kernels_digest(settings.kernels),
            "host": _file_digest(settings.engine_program),
            "machine": machine.digest,
        },
    )
    return subject, checkpoint


def _where_read(machine: Machine) -> str:
    if machine.read_buffer_bytes > machine.last_level_cache_bytes:
        return ""
    return (
        f" over {machine.read_buffer_bytes >> 20} MiB, as much as a step reads: the last cache of "
        f"{machine.last_level_cache_bytes >> 20} MiB holds it"
    )


def write_inputs(subject: Subject, checkpoint: Checkpoint, folder: Path) -> None:
    """graph.json and tokenizer.json into `folder`, unless they are there.

    Raises: CheckpointError, MachineError as `write_engine_inputs`.
    """
    if not ((folder / "graph.json").exists() and (folder / "tokenizer.json").exists()):
        write_engine_inputs(subject.graph, checkpoint, folder)


def _check_tools(settings: Settings) -> None:
    """What costs nothing to know comes first."""
    if not settings.engine_program.exists():
        raise MachineError(
            f"there is no host program at {settings.engine_program}", hint="run `make setup`"
        )
    if shutil.which("rustc") is None:
        raise MachineError(
            "there is no Rust compiler: `rustc` is not on PATH",
            hint="install Rust 1.95 or later from https://rustup.rs; `enginewright doctor` checks",
        )


def _check_fit(loaded: LoadedTarget, kind: str, context: int) -> None:
    target = loaded.target
    asked = "encoder" if target.is_encoder else "decoder"
    if asked != kind:
        raise TargetError(
            f"{loaded.source}: the scenarios are those of a {asked}; {target.model.checkpoint} is "
            f"a{'n' if kind == 'encoder' else ''} {kind}",
            hint="decoders generate: give every scenario output_tokens; encoders generate nothing",
        )
    for scenario in target.workload.scenario:
        needed = scenario.prompt_tokens + scenario.output_tokens
        if needed > context:
            raise TargetError(
                f"{loaded.source}: scenario `{scenario.name}` needs {needed} tokens; the model's "
                f"context is {context}",
                hint="make prompt_tokens or output_tokens smaller",
            )


def kernels_digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of all kernel sources of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.rs")):
        digest.update(f"{path.name} {_file_digest(path)}\n".encode())
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
