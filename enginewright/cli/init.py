"""`enginewright init`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json
from enginewright.errors import UsageError
from enginewright.model import inspect_checkpoint
from enginewright.target import write_target


def init(
    checkpoint: Annotated[str, typer.Argument(help="A .gguf file, a folder or package:path.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; NAME.cpu.toml if left out.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the target; the checkpoint's if left out.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a target file with sensible values for a checkpoint."""
    inspection, graph, held = inspect_checkpoint(checkpoint)
    target = name or _name_of(inspection.name)
    path = out or Path(f"{target}.toml")
    write_target(
        path,
        name=target,
        checkpoint=checkpoint,
        sha256=held.sha256(),
        is_encoder=graph.kind == "encoder",
        context=graph.dimensions.context,
    )
    if as_json:
        print_json({"target": str(path), "name": target, "kind": graph.kind})
    else:
        print(f"{path} is written; look through it, then run: enginewright build {path}")


def _name_of(checkpoint: str) -> str:
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", checkpoint).strip("-._").lower()
    if not words:
        raise UsageError(f"no name can be made of {checkpoint!r}", hint="give one with --name")
    return f"{words}.cpu"
