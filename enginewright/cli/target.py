"""`enginewright target`: what target files may say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json
from enginewright.target import json_schema, load_target

target = typer.Typer(help="Target files: their schema, and whether one is sound.")


@target.command()
def schema(as_json: JsonFlag = True) -> None:
    """Print the JSON schema of a target file (always as JSON)."""
    print_json(json_schema())


@target.command()
def check(
    path: Annotated[Path, typer.Argument(help="A target file.")], as_json: JsonFlag = False
) -> None:
    """Say whether a target file is sound, without reading its checkpoint."""
    loaded = load_target(path)
    if as_json:
        print_json({"target": loaded.target.model_dump(mode="json"), "sha256": loaded.sha256})
    else:
        print(f"{path}: target `{loaded.target.name}` is sound")
