"""Engines for a text model at published shapes, to be timed by `text_step.py` where there is a GPU.

    python benchmarks/h200/make_text_bundle.py CONFIG.json OUT

Needs this project, its host program and nvcc. OUT holds the host program, the plain and the fused
engine, and for each kind of group of the fused decode step the cubins of many settings.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.evaluation.compile import Job
from enginewright.evaluation.compile_cuda import compile_cubin, cubin_key
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
from enginewright.plan.contracts import Kernel
from enginewright.plan.expression import holds
from enginewright.settings import load_settings
from enginewright.variation import big_step

HERE = Path(__file__).resolve().parent
CONTEXT = 4096
MOST_LOADS = 32
"""Loads of sixteen bytes that a lane has under way at most: 128 registers."""


def make_bundle(config: Path, out: Path) -> None:
    """Write the bundle into the folder `out`, which is replaced.

    Raises: RuntimeError if an engine or a kernel does not build.
    """
    settings = load_settings()
    shutil.rmtree(out, ignore_errors=True)
    (out / "inputs").mkdir(parents=True)
    subprocess.run(
        ["strip", "-o", out / "enginewright-engine", settings.engine_program], check=True
    )
    for name in ("text_step.py", "random_checkpoint.py"):
        shutil.copyfile(HERE / name, out / name)
    shutil.copyfile(config, out / "config.json")
    library = load_library(settings.cuda_kernels)
    graph = _graph(config)
    (out / "inputs/graph.json").write_text(graph.to_json())
    (out / "inputs/tokenizer.json").write_text("{}")
    capacity = Capacity(
        prefill_rows=64, prefill_selected=64, decode_rows=1, context=CONTEXT, slots=1
    )
    plain = naive_plan(graph, library, 1, capacity=capacity)
    plain = with_settings(
        plain,
        graph,
        library,
        cache=plain.cache.model_copy(update={"dtype": "f16", "layout": "head_major"}),
    )
    allowed = Allowed(features=frozenset(), numerics=frozenset({"cache_f16"}))
    fused = big_step(plain, graph, library, allowed=allowed)
    for name, plan in (("plain", plain), ("fused", fused)):
        with tempfile.TemporaryDirectory() as scratch:
            candidate = Path(scratch) / "candidate"
            write_candidate(plan, library, out / "inputs", candidate)
            built = build_engine(candidate, out / name, settings.home / "objects", frozenset())
        if isinstance(built, NotBuilt):
            raise RuntimeError(f"{built.kernel}: {built.reason}\n{built.log}")
    options = _options(fused, library, out / "fused/kernels")
    (out / "options.json").write_text(json.dumps(options, indent=1))
    print(f"{sum(map(len, options.values()))} settings of {len(options)} kinds", file=sys.stderr)


def _graph(config: Path) -> Graph:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, HERE / "random_checkpoint.py", config, scratch, "--holes"], check=True
        )
        return build_graph(read_checkpoint(scratch))


def _options(plan: Plan, library: Library, kernels: Path) -> dict[str, list[dict[str, object]]]:
    """`kind of group -> its settings with their objects`; compiles them into `kernels`."""
    wanted: dict[str, dict[Job, dict[str, int]]] = {}
    for group in plan.steps["decode"].groups:
        kernel = library.named(group.kernel)
        fixed = {k: v for k, v in group.constants.items() if not k.startswith("EW_PARAM_")}
        kind = group_kind(group.kernel, group.constants)
        if kind in wanted or not kernel.contract.parameters:
            continue
        jobs = wanted.setdefault(kind, {})
        for setting in _settings(kernel):
            constants = fixed | {f"EW_PARAM_{name}": str(value) for name, value in setting.items()}
            jobs[Job(source=kernel.source, constants=tuple(sorted(constants.items())))] = setting
    todo = {job: kernels / f"{cubin_key(job)}.cubin" for jobs in wanted.values() for job in jobs}
    with ThreadPoolExecutor(2) as pool:
        for failure in pool.map(
            lambda item: None if item[1].exists() else compile_cubin(*item), todo.items()
        ):
            if failure is not None:
                raise RuntimeError(f"{failure.kernel}: {failure.reason}\n{failure.log}")
    return {
        kind: [{"object": todo[job].stem, "parameters": setting} for job, setting in jobs.items()]
        for kind, jobs in wanted.items()
    }


def group_kind(kernel: str, constants: dict[str, str]) -> str:
    """What groups of one kind share: kernel, ops and widths."""
    widths = [
        f"{constants[f'EW_OP{number}_IN']}x{constants[f'EW_OP{number}_OUT']}"
        for number in range(len(constants["EW_OPS"].split()))
        if f"EW_OP{number}_IN" in constants
    ]
    return " ".join([f"{kernel}:", constants["EW_OPS"], *widths])


def _settings(kernel: Kernel) -> Iterator[dict[str, int]]:
    names = list(kernel.contract.parameters)
    values = [kernel.contract.parameters[name].values for name in names]
    for combination in itertools.product(*values):
        setting = dict(zip(names, combination, strict=True))
        if setting.get("OUTPUTS", 1) * setting.get("LOADS", 1) > MOST_LOADS:
            continue
        if setting.get("SPLIT", 1) > setting.get("WARPS", 1) or setting.get("LOADS", 4) < 4:
            continue
        named = {f"PARAM_{name}": value for name, value in setting.items()}
        # The others speak of ops, which the default setting was checked for.
        own = [c for c in kernel.contract.constraints if "PARAM_" in c and "OP_" not in c]
        if all(holds(constraint, named, where=kernel.source.name) for constraint in own):
            yield setting


if __name__ == "__main__":
    make_bundle(Path(sys.argv[1]), Path(sys.argv[2]))
