"""Whole engines of tiny random models against the answers of `transformers`: every family, stored
type and option that the goldens vary, with the plain kernels and with the fast ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.kernel_source import processor_features
from enginewright.model import build_graph, read_checkpoint
from enginewright.plan import Allowed, Capacity, load_library, naive_plan, write_candidate
from enginewright.settings import load_settings
from enginewright.evaluation.run_sequences import run_sequences
from enginewright.variation import big_step

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"
MOST_ERROR = 1e-4
"""Largest difference, relative to the answer's largest value: float32 in another order."""


@pytest.mark.parametrize("kind", ["naive", "big step"])
@pytest.mark.parametrize("name", sorted(path.name for path in TINY.iterdir()))
def test_an_engine_answers_like_transformers(
    name: str, kind: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = load_settings()
    graph = build_graph(read_checkpoint(str(TINY / name)))
    library = load_library(settings.kernels)
    capacity = Capacity(prefill_rows=64, prefill_selected=64, context=64, slots=2)
    plan = naive_plan(graph, library, 2, capacity=capacity)
    features = processor_features()
    if kind == "big step":
        allowed = Allowed(features=features, numerics=frozenset())
        plan = big_step(plan, graph, library, allowed=allowed)
    (tmp_path / "graph.json").write_text(graph.to_json())
    (tmp_path / "tokenizer.json").write_text("{}")
    write_candidate(plan, library, tmp_path, tmp_path / "candidate")
    objects = tmp_path_factory.getbasetemp() / "tiny-objects"
    built = build_engine(tmp_path / "candidate", tmp_path / "engine", objects, features)
    assert not isinstance(built, NotBuilt), built
    expected = load_file(TINY / name / "expected.safetensors")
    sequence = [int(token) for token in expected["ids"]]
    (found,) = run_sequences(
        settings.engine_program, tmp_path / "engine", TINY / name, [sequence]
    )
    error = np.abs(found - expected["answer"]).max() / np.abs(expected["answer"]).max()
    assert error <= MOST_ERROR
