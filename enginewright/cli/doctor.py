"""`enginewright doctor`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.settings import load_settings

_LEAST_FREE_BYTES = 2 << 30


def doctor(as_json: JsonFlag = False) -> None:
    """Say what this machine has and lacks, and what to install."""
    settings = load_settings()
    checks = [
        _program("rustc", "install Rust 1.95 or later: https://rustup.rs"),
        _program("cargo", "install Rust 1.95 or later: https://rustup.rs"),
        _disk(settings.home),
        _host(settings.engine_program),
        _program("bwrap", "install bubblewrap to run candidates in a sandbox", is_needed=False),
        _program("nvidia-smi", "no GPU is needed by this version", is_needed=False),
    ]
    is_able = all(check["ok"] for check in checks if check["needed"])
    if as_json:
        print_json({"able": is_able, "checks": checks})
    else:
        rows = (
            ("ok" if held["ok"] else "lacks", held["name"], held["found"], held["hint"])
            for held in checks
        )
        print_rows(("", "what", "found", "to do"), rows)
    if not is_able:
        raise SystemExit(5)


def _check(name: str, found: Any, hint: str | None, *, is_needed: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": hint is None, "needed": is_needed, "found": found, "hint": hint}


def _program(name: str, hint: str, *, is_needed: bool = True) -> dict[str, Any]:
    path = shutil.which(name)
    if path is None:
        return _check(name, None, hint, is_needed=is_needed)
    if name == "nvidia-smi":
        return _check(name, path, None, is_needed=is_needed)
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return _check(name, f"{path} ends with {answer.returncode}", hint, is_needed=is_needed)
    return _check(name, answer.stdout.strip(), None, is_needed=is_needed)


def _disk(home: Path) -> dict[str, Any]:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    hint = None if free >= _LEAST_FREE_BYTES else f"free 2 GiB at {place}"
    return _check("disk", f"{free / 2**30:.1f} GiB free", hint)


def _host(program: Path) -> dict[str, Any]:
    if not program.exists():
        return _check("engine host", None, "run `make setup`, which builds it")
    try:
        answer = subprocess.run(
            [program, "probe"], capture_output=True, text=True, check=False, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _check("engine host", str(error), "build it again with `make setup`")
    if answer.returncode != 0:
        return _check("engine host", answer.stderr.strip(), "build it again with `make setup`")
    return _check("engine host", json.loads(answer.stdout), None)
