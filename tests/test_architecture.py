"""Imports go one way: docs/architecture.md, invariant 1."""

import ast
from pathlib import Path

import enginewright

ROOT = Path(enginewright.__file__).parent
MAY_IMPORT = {
    "target": set(),
    "model": {"target"},
    "plan": {"target", "model"},
    "variation": {"target", "model", "plan", "retention"},
    "evaluation": {"target", "model"},
    "retention": {"target", "evaluation"},
    "swarm": {"target", "model", "plan", "variation", "evaluation", "retention", "delivery"},
    "delivery": {"target", "model", "plan", "variation", "evaluation", "retention", "swarm"},
}


EXCEPTIONS: set[str] = set()
"""Known breaches. None, and each new one is to be argued for."""


def imported_rooms(source):
    rooms = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "enginewright" and len(parts) > 1:
                rooms.add(parts[1])
    return rooms & (MAY_IMPORT.keys() | {"cli"})


def test_imports_go_one_way():
    wrong = []
    checked = 0
    for room, allowed in MAY_IMPORT.items():
        for path in sorted((ROOT / room).rglob("*.py")):
            checked += 1
            extra = imported_rooms(path.read_text()) - allowed - {room}
            wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(extra)]
    assert checked > 20
    assert set(wrong) == EXCEPTIONS


def test_a_wrong_import_is_seen():
    assert imported_rooms("from enginewright.cli import main") == {"cli"}
    assert imported_rooms("from enginewright import plan, errors") == {"plan"}
    assert imported_rooms("import enginewright.variation.tuner") == {"variation"}
