"""Engines for an NVIDIA GPU out of the tiny goldens, with all that `compare_on_device.py` needs.

    python tests/cuda/make_bundle.py OUT

Needs nvcc. OUT is then carried to a machine with a GPU: it holds the host program, a folder with
engine and weights for each model, and the answers of the original implementation.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from safetensors.numpy import load_file

from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.plan import (
    Allowed,
    Capacity,
    Library,
    Plan,
    load_library,
    naive_plan,
    write_candidate,
)
from enginewright.plan.choices import with_settings
from enginewright.settings import load_settings
from enginewright.variation import big_step

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"


def make_bundle(out: Path) -> None:
    """Write the bundle into the folder `out`, which is replaced.

    Raises: RuntimeError if an engine does not build.
    """
    settings = load_settings()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    # Symbols of the debugger are most of the file.
    program = out / "enginewright-engine"
    subprocess.run(["strip", "-o", program, settings.engine_program], check=True)
    library = load_library(settings.cuda_kernels)
    for checkpoint in sorted(TINY.iterdir()):
        folder = out / checkpoint.name
        graph = build_graph(read_checkpoint(str(checkpoint)))
        missing = {op.kind for op in graph.ops if f"naive_{op.kind}" not in library}
        if missing:
            kinds = ", ".join(sorted(missing))
            print(f"{checkpoint.name}: LEFT OUT, no CUDA kernels for {kinds}", file=sys.stderr)
            continue
        shutil.copytree(checkpoint, folder / "checkpoint")
        inputs = folder / "inputs"
        inputs.mkdir()
        (inputs / "graph.json").write_text(graph.to_json())
        (inputs / "tokenizer.json").write_text("{}")
        for name, plan in _plans(graph, library).items():
            candidate = folder / f"candidate-{name}"
            write_candidate(plan, library, inputs, candidate)
            built = build_engine(
                candidate, folder / f"engine-{name}", settings.home / "objects", frozenset()
            )
            if isinstance(built, NotBuilt):
                where = f"{checkpoint.name}: {built.kernel}"
                raise RuntimeError(f"{where}: {built.reason}\n{built.log}")
            shutil.rmtree(candidate)
        expected = load_file(checkpoint / "expected.safetensors")
        ids = [int(token) for token in expected["ids"].reshape(-1)]
        (folder / "input.json").write_text(json.dumps({"sequences": [ids]}))
        print(f"{checkpoint.name}: {len(graph.ops)} ops", file=sys.stderr)


def _plans(graph: Graph, library: Library) -> dict[str, Plan]:
    """The plain plan, the same over a half-precision cache, and the fast kernels that there are."""
    capacity = Capacity(prefill_rows=64, prefill_selected=64, context=64, slots=2)
    plain = naive_plan(graph, library, 1, capacity=capacity)
    found = {"f32": plain}
    if graph.kind == "decoder":
        cache = plain.cache.model_copy(update={"dtype": "f16", "layout": "head_major"})
        found["f16"] = with_settings(plain, graph, library, cache=cache)
    allowed = Allowed(features=frozenset(), numerics=frozenset())
    fast = big_step(plain, graph, library, allowed=allowed)
    if fast != plain:
        found["fast"] = fast
    return found


if __name__ == "__main__":
    make_bundle(Path(sys.argv[1]))
