"""A model that carries states: served tokens are those of `transformers`, in any company and in any
pieces, and rows are never run twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from serve_process import EngineFolder, Server
from tokenizers import Tokenizer, models

from enginewright.errors import EngineError
from enginewright.evaluation.build import Built, build_engine
from enginewright.evaluation.run_sequences import run_sequences
from enginewright.kernel_source import processor_features
from enginewright.model import build_graph, execute, read_checkpoint
from enginewright.plan import Capacity, load_library, naive_plan, write_candidate
from enginewright.settings import load_settings

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"
MODELS = ("qwen3_5_dense", "qwen3_5_moe")
CAPACITY = Capacity(prefill_rows=11, prefill_selected=5, decode_rows=2, context=64, slots=3)
"""Small on purpose: prompts of 40 take four pieces, and more sequences live than one step takes."""


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory) -> EngineFolder:
    folder = tmp_path_factory.mktemp(request.param)
    graph = build_graph(read_checkpoint(str(TINY / request.param)))
    library = load_library(load_settings().kernels)
    plan = naive_plan(graph, library, 2, capacity=CAPACITY)
    (folder / "graph.json").write_text(graph.to_json())
    # The model has no words: any tokenizer of its size serves, for requests are ids.
    vocabulary = {f"w{number}": number for number in range(graph.dimensions.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    write_candidate(plan, library, folder, folder / "candidate")
    objects = folder / "objects"
    built = build_engine(folder / "candidate", folder / "engine", objects, processor_features())
    assert isinstance(built, Built), built
    return EngineFolder(folder / "engine", TINY / request.param)


@pytest.fixture(scope="module")
def server(program: Path, model: EngineFolder) -> Iterator[Server]:
    server = Server(program, model, "--model-name", "tiny")
    yield server
    assert server.stop() == 0, server.log.decode()


def recorded(model: EngineFolder) -> tuple[list[int], list[int]]:
    held = load_file(model.checkpoint / "expected.safetensors")
    return held["ids"].tolist(), held["continuation"].tolist()


def generated(server: Server, prompt: list[int], count: int) -> list[int]:
    asked = {
        "model": "tiny", "prompt": prompt, "max_tokens": count, "temperature": 0,
        "ignore_eos": True, "return_token_ids": True,
    }  # fmt: skip
    reply = server.post("/v1/completions", asked)
    assert reply.status == 200, reply.body
    ids: list[int] = reply.json["choices"][0]["token_ids"]
    return ids


def test_served_tokens_are_those_of_transformers(server, model) -> None:
    ids, continuation = recorded(model)
    # Twice, so that the second has a slot that another sequence left its state in.
    for _ in range(4):
        assert generated(server, ids, len(continuation)) == continuation


def test_company_changes_no_token(server, model) -> None:
    ids, _ = recorded(model)
    prompts = [ids[start : start + length] for start, length in
               ((0, 40), (3, 1), (5, 12), (0, 23), (9, 2), (1, 31))]  # fmt: skip
    alone = [generated(server, prompt, 12) for prompt in prompts]
    with ThreadPoolExecutor(max_workers=len(prompts)) as pool:
        together = list(pool.map(lambda prompt: generated(server, prompt, 12), prompts))
    assert together == alone
    assert len({tuple(tokens) for tokens in alone}) > 1


@pytest.mark.parametrize("flags", [(), ("--chunk", "1"), ("--chunk", "3"), ("--step", "decode")])
def test_pieces_change_no_byte(program, model, flags) -> None:
    ids, _ = recorded(model)
    # A short sequence behind a longer one runs in its slot.
    sequences = [ids, ids[:7]]
    found = run_sequences(program, model.engine, model.checkpoint, sequences, flags=flags)
    whole = run_sequences(program, model.engine, model.checkpoint, sequences)
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    checkpoint = read_checkpoint(model.checkpoint)
    right = execute(build_graph(checkpoint), checkpoint, sequences)
    for one, other in zip(found, right, strict=True):
        assert np.abs(one - other).max() <= 1e-4 * np.abs(other).max()


def test_a_chunk_that_would_run_rows_twice_is_refused(program, model) -> None:
    ids, _ = recorded(model)
    with pytest.raises(EngineError, match="leave --chunk out"):
        run_sequences(program, model.engine, model.checkpoint, [ids], flags=("--chunk", "6"))
