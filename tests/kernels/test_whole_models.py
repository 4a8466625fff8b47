"""Whole engines of tiny random models against the answers of `transformers`: every family, stored
type and option that the goldens vary, with the plain kernels and with the fast ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.evaluation.run_sequences import run_sequences
from enginewright.evaluation.sandbox import open_sandbox, probe_sandbox
from enginewright.kernel_source import processor_features
from enginewright.model import build_graph, read_checkpoint
from enginewright.plan import Allowed, Capacity, load_library, naive_plan, write_candidate
from enginewright.settings import load_settings
from enginewright.variation import big_step

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"
MOST_ERROR = 1e-4
"""Largest difference, relative to the answer's largest value: float32 in another order."""


def _build(name: str, kind: str, folder: Path, objects: Path) -> None:
    """Builds an engine of `tests/goldens/tiny/NAME` into `folder/engine`."""
    settings = load_settings()
    graph = build_graph(read_checkpoint(str(TINY / name)))
    library = load_library(settings.kernels)
    capacity = Capacity(prefill_rows=64, prefill_selected=64, context=64, slots=2)
    plan = naive_plan(graph, library, 2, capacity=capacity)
    features = processor_features()
    if kind == "big step":
        allowed = Allowed(features=features, numerics=frozenset())
        plan = big_step(plan, graph, library, allowed=allowed)
    (folder / "graph.json").write_text(graph.to_json())
    (folder / "tokenizer.json").write_text("{}")
    write_candidate(plan, library, folder, folder / "candidate")
    built = build_engine(folder / "candidate", folder / "engine", objects, features)
    assert not isinstance(built, NotBuilt), built


@pytest.mark.parametrize("kind", ["naive", "big step"])
@pytest.mark.parametrize("name", sorted(path.name for path in TINY.iterdir()))
def test_an_engine_answers_like_transformers(
    name: str, kind: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _build(name, kind, tmp_path, tmp_path_factory.getbasetemp() / "tiny-objects")
    expected = load_file(TINY / name / "expected.safetensors")
    sequence = [int(token) for token in expected["ids"]]
    (found,) = run_sequences(
        load_settings().engine_program, tmp_path / "engine", TINY / name, [sequence]
    )
    error = np.abs(found - expected["answer"]).max() / np.abs(expected["answer"]).max()
    assert error <= MOST_ERROR


def test_an_engine_that_is_shut_in_answers_the_same(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = load_settings()
    report = probe_sandbox(settings.sandbox_program)
    if report.level != "strong":
        pytest.skip(f"NOT CHECKED: no strong sandbox here: {report.layers['own_root']}")
    sandbox = open_sandbox(settings.sandbox_program, "strong")
    name = min(path.name for path in TINY.iterdir())
    _build(name, "naive", tmp_path, tmp_path_factory.getbasetemp() / "tiny-objects")
    sequence = [int(token) for token in load_file(TINY / name / "expected.safetensors")["ids"]]
    free, shut_in = (
        run_sequences(
            settings.engine_program, tmp_path / "engine", TINY / name, [sequence], sandbox=place
        )
        for place in (None, sandbox)
    )
    np.testing.assert_array_equal(free[0], shut_in[0])
