"""One object as JSON on stdout, or rows for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def print_json(held: Mapping[str, Any]) -> None:
    """One object on stdout."""
    print(json.dumps(held, ensure_ascii=False, indent=2))


def print_fields(fields: Mapping[str, object]) -> None:
    """Names and values, one a line."""
    grid = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        grid.add_row(f"[dim]{name}[/dim]", str(value))
    Console().print(grid)


def print_rows(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table."""
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    Console().print(table)
