"""`ship`: an engine folder to one program with its manifest, checked again after linking."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.delivery.link import Inside, LinkedKernel, link
from enginewright.delivery.same_answers import check_same_answers
from enginewright.errors import EngineError, UsageError
from enginewright.settings import load_settings

PROGRAM = "engine"
"""Name of the program in the shipped folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What was made."""

    folder: Path
    """Everything that has to be copied to the other machine."""
    binary: Path
    """The program."""
    manifest: Path
    """Where it came from."""
    checked_answers: int
    """Requests that the program answered with the same bytes as the engine folder."""


def ship(
    engine: Path,
    candidate: Path,
    checkpoint: Path,
    out: Path,
    *,
    embed_weights: bool = False,
    evidence: list[str] | None = None,
) -> Shipped:
    """Link an engine into `out/engine` and check that it answers as the engine folder does.

    `engine` is a built engine folder, `candidate` the folder of the kernel sources it was built
    from (`kernels/*.rs`), `checkpoint` the folder of the weights. The weights are put beside the
    program, or into it with `embed_weights`. `out` appears whole or not at all; an older shipped
    engine there is replaced.

    Raises: UsageError if `out` holds something else; EngineError if it does not link or answers
    differently; MachineError if this machine lacks the compiler or the room.
    """
    if out.exists() and any(out.iterdir()) and not (out / "manifest.json").is_file():
        raise UsageError(
            f"{out} is not empty and holds no shipped engine", hint="name another folder with --out"
        )
    plan_text = (engine / "plan.json").read_bytes()
    plan = json.loads(plan_text)
    graph = json.loads((engine / "graph.json").read_bytes())
    kernels = _kernels(plan)
    weights = [checkpoint / file["path"] for file in graph["files"]]
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".ship.", dir=out.parent) as place:
        work, made = Path(place) / "work", Path(place) / "made"
        work.mkdir()
        made.mkdir()
        manifest = made / "manifest.json"
        origin = _manifest(engine, plan, graph, kernels, evidence or [])
        manifest.write_text(json.dumps(origin | {"weights_inside": embed_weights}, indent=1) + "\n")
        inside = Inside(
            graph=engine / "graph.json",
            plan=engine / "plan.json",
            tokenizer=engine / "tokenizer.json",
            manifest=manifest,
            weights=tuple(weights) if embed_weights else None,
        )
        link(kernels, candidate / "kernels", inside, work, made / PROGRAM)
        if not embed_weights:
            for file, path in zip(graph["files"], weights, strict=True):
                _place(path, made / "weights" / file["path"])
        _read_back(made / PROGRAM, manifest)
        checked = check_same_answers(
            _serve_folder(engine, checkpoint),
            [str(made / PROGRAM), "serve"],
            is_encoder=graph["kind"] == "encoder",
            vocabulary=graph["dimensions"]["vocabulary"],
        )
        # Beside, not inside: a program cannot hold its own hash.
        (made / "SHA256SUMS").write_text(f"{_digest(made / PROGRAM)}  {PROGRAM}\n")
        if out.exists():
            out.rename(Path(place) / "older")
        made.rename(out)
    return Shipped(
        folder=out, binary=out / PROGRAM, manifest=out / "manifest.json", checked_answers=checked
    )


def _kernels(plan: dict[str, Any]) -> list[LinkedKernel]:
    found: dict[str, LinkedKernel] = {}
    for step in plan["steps"].values():
        for group in step["groups"]:
            if "object" not in group:
                raise EngineError(
                    f"plan.json: group {group['id']} has no object",
                    hint="ship a built engine, not a candidate",
                )
            found[group["object"]] = LinkedKernel(
                object=group["object"],
                kernel=group["kernel"],
                constants=tuple(sorted(group["constants"].items())),
            )
    return list(found.values())


def _manifest(
    engine: Path,
    plan: dict[str, Any],
    graph: dict[str, Any],
    kernels: list[LinkedKernel],
    evidence: list[str],
) -> dict[str, Any]:
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=False)
    return {
        "format": "enginewright.manifest/1",
        "name": graph["name"],
        "files": {
            name: _digest(engine / name) for name in ("graph.json", "plan.json", "tokenizer.json")
        },
        "weights": graph["files"],
        "kernels": {kernel.object: kernel.kernel for kernel in kernels},
        "requires": plan["requires"],
        "numerics": plan["numerics"],
        "toolchain": compiler.stdout.strip().splitlines(),
        "evidence": evidence,
    }


def _serve_folder(engine: Path, checkpoint: Path) -> list[str]:
    program = str(load_settings().engine_program)
    return [program, "serve", "--engine", str(engine), "--checkpoint", str(checkpoint)]


def _place(weights: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # The same file on one disk costs nothing; it is never written.
        os.link(weights, target)
    except OSError:
        shutil.copyfile(weights, target)


def _read_back(program: Path, manifest: Path) -> None:
    """A stale program would carry another manifest."""
    done = subprocess.run([str(program), "manifest"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stdout.strip() != manifest.read_text().strip():
        raise EngineError(
            f"{program} does not carry the manifest it was linked with: {done.stderr.strip()}"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
