"""`enginewright doctor`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rich.console import Console

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.errors import EnginewrightError
from enginewright.evaluation.sandbox import probe_sandbox
from enginewright.settings import load_settings

LEAST_FREE_BYTES = 2 << 30
"""Room for objects, engines and a shipped copy of small weights."""
LEAST_RUST = (1, 95)
"""Oldest compiler that the workspace and the kernels are written for."""
_RUST_HINT = "install Rust 1.95 or later: https://rustup.rs"
_FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "asimd", "asimddp")
"""Processor features that kernels of the library ask for."""


def doctor(as_json: JsonFlag = False) -> None:
    """Say what this machine has and lacks, and what to install. Ends with 5 if something needed
    lacks."""
    settings = load_settings()
    probe = _probe(settings.engine_program)
    checks = [
        _rust("rustc"),
        _rust("cargo"),
        _linker(),
        _disk(settings.home),
        probe["check"],
        *_machine(probe["found"]),
        _sandbox(settings.sandbox_program),
        _gpu(),
    ]
    is_able = all(check["ok"] for check in checks if check["needed"])
    if as_json:
        print_json({"able": is_able, "checks": checks, "machine": probe["found"]})
    else:
        rows = ((_mark(held), held["name"], held["found"], held["hint"]) for held in checks)
        print_rows(("", "what", "found", "to do"), rows)
        if is_able:
            Console().print("This machine can build engines.")
    if not is_able:
        raise SystemExit(5)


def _mark(check: dict[str, Any]) -> str:
    if check["ok"]:
        return "[green]ok[/green]"
    return "[red]lacks[/red]" if check["needed"] else "[dim]without[/dim]"


def _check(name: str, found: Any, hint: str | None, *, is_needed: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": hint is None, "needed": is_needed, "found": found, "hint": hint}


def _said(*command: str) -> tuple[int, str] | None:
    """Exit code and output; None if there is no such program, or it does not end."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *command[1:]], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, (done.stdout or done.stderr).strip()


def _rust(name: str) -> dict[str, Any]:
    said = _said(name, "--version")
    if said is None:
        return _check(name, None, _RUST_HINT)
    code, text = said
    if code != 0:
        return _check(name, f"ends with {code}", _RUST_HINT)
    numbers = re.search(r"(\d+)\.(\d+)", text)
    is_recent = numbers is not None and (int(numbers[1]), int(numbers[2])) >= LEAST_RUST
    return _check(name, text, None if is_recent else "update Rust: rustup update stable")


def _linker() -> dict[str, Any]:
    for name in ("cc", "gcc", "clang"):
        said = _said(name, "--version")
        if said is not None and said[0] == 0:
            return _check("linker", said[1].splitlines()[0], None)
    return _check("linker", None, "install a C compiler: apt install gcc, or dnf install gcc")


def _disk(home: Path) -> dict[str, Any]:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    hint = None if free >= LEAST_FREE_BYTES else f"free 2 GiB at {place}"
    return _check("disk", f"{free / 2**30:.1f} GiB free at {place}", hint)


def _probe(program: Path) -> dict[str, Any]:
    """What the host program measures, and whether it could."""

    def failed(found: str | None, hint: str) -> dict[str, Any]:
        return {"check": _check("engine host", found, hint), "found": None}

    if not program.exists():
        return failed(None, "run `make setup`, which builds it")
    try:
        answer = subprocess.run(
            [program, "probe"], capture_output=True, text=True, check=False, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return failed(str(error), "build it again with `make setup`")
    if answer.returncode != 0:
        return failed(answer.stderr.strip(), "build it again with `make setup`")
    return {
        "check": _check("engine host", str(program), None),
        "found": json.loads(answer.stdout),
    }


def _machine(probe: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Processor, SIMD, caches, memory and measured rates."""
    if probe is None:
        return []
    features = [name for name in _FEATURES if name in probe["features"]]
    is_fast = "avx2" in features and "fma" in features
    simd_hint = None if is_fast else "AVX2 and FMA are absent: only the plain kernels will run"
    caches = ", ".join(
        f"L{cache['level']} {cache['kind']} {_size(cache['bytes'])}" for cache in probe["caches"]
    )
    memory = probe["memory"]
    return [
        _check("processor", f"{probe['processor']}, {probe['cores']} cores usable", None),
        _check("SIMD", " ".join(features) or "none", simd_hint, is_needed=False),
        _check("caches", caches or "unknown", None, is_needed=False),
        _check(
            "memory",
            f"{_size(memory['available_bytes'])} of {_size(memory['total_bytes'])} available",
            None,
        ),
        _check("read bandwidth", _rates(probe["read_bandwidth"], "bytes_per_second", "GB/s"), None),
        _check("peak float32", _rates(probe["peak_f32"], "flops_per_second", "GFLOP/s"), None),
        _check("huge pages", probe["huge_pages"], None, is_needed=False),
    ]


def _rates(rates: list[dict[str, Any]], name: str, unit: str) -> str:
    return ", ".join(
        f"{rate[name] / 1e9:.1f} {unit} with {rate['threads']} "
        f"thread{'' if rate['threads'] == 1 else 's'} (best {rate['best'] / 1e9:.1f})"
        for rate in rates
    )


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{count / size:.1f} {unit}".replace(".0 ", " ")
    return f"{count / 2**10:.0f} KiB"


def _sandbox(program: Path) -> dict[str, Any]:
    """How far candidates can be kept apart from the rest of the machine."""
    try:
        report = probe_sandbox(program)
    except EnginewrightError as error:
        return _check("sandbox", None, error.hint or error.message)
    lacks = [f"{name} ({reason})" for name, reason in report.layers.items() if reason is not None]
    without = f"; without {', '.join(lacks)}" if lacks else ""
    hint = None
    if report.level != "strong":
        hint = "allow namespaces to this user, or build with --sandbox=weak"
    return _check("sandbox", f"{report.level}{without}", hint, is_needed=False)


def _gpu() -> dict[str, Any]:
    said = _said("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    if said is None or said[0] != 0 or not said[1]:
        return _check(
            "GPU", None, "none is needed: this version builds for processors", is_needed=False
        )
    return _check("GPU", "; ".join(said[1].splitlines()), None, is_needed=False)
