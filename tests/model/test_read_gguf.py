"""Damaged GGUF files end in one clear error; whole ones in every stored type are read."""

from __future__ import annotations

import struct

import gguf
import numpy as np
import pytest

from enginewright.errors import CheckpointError
from enginewright.model import build_graph, read_checkpoint, read_tokenizer


def test_a_whole_file_gives_graph_and_tokenizer(make_gguf) -> None:
    checkpoint = read_checkpoint(make_gguf())
    checkpoint.scan_for_bad_values()
    graph = build_graph(checkpoint)
    assert graph.dimensions.vocabulary == 8
    tokenizer = read_tokenizer(checkpoint, vocabulary=8)
    assert tokenizer.encode("abab a").ids == [3, 3, 4, 1]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "the file is empty"),
        (b"GG", "starts with b'GG'"),
        (b"GGML" + bytes(60), "starts with b'GGML'"),
        (b"GGUF\x03\0\0\0", "ends inside the header"),
        (b"GGUF" + struct.pack("<IQQ", 2, 0, 0), "GGUF version 2"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "GGUF version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "claims 1152921504606846976 tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "more than"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(32), "holds no tensors"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, start, message) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(start)
    with pytest.raises(CheckpointError, match=message) as raised:
        read_checkpoint(path)
    assert "bad.gguf" in str(raised.value)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(make_gguf, share) -> None:
    path = make_gguf()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(CheckpointError, match=r"header|lies at bytes"):
        read_checkpoint(path)


def tensor_entry(content: bytes, name: bytes) -> int:
    """Where the entry of tensor `name` has its number of dimensions."""
    return content.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)


def test_an_offset_out_of_range_is_refused(make_gguf) -> None:
    path = make_gguf()
    content = bytearray(path.read_bytes())
    at = tensor_entry(content, b"output_norm.weight")
    struct.pack_into("<Q", content, at + 4 + 8 + 4, 1 << 40)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"header cannot be read|lies at bytes"):
        read_checkpoint(path)


def test_overlapping_tensors_are_refused(make_gguf) -> None:
    path = make_gguf()
    content = bytearray(path.read_bytes())
    at = tensor_entry(content, b"blk.0.attn_norm.weight")
    struct.pack_into("<Q", content, at + 4 + 8 + 4, 0)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"`blk\.0\.attn_norm\.weight` and .* overlap"):
        read_checkpoint(path)


def test_a_tensor_that_appears_twice_is_refused(make_gguf) -> None:
    path = make_gguf()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"blk.0.attn_k.weight", b"blk.0.attn_v.weight", 1))
    with pytest.raises(CheckpointError, match="duplicated tensor"):
        read_checkpoint(path)


def test_a_size_that_is_no_whole_block_is_refused(make_gguf) -> None:
    path = make_gguf()
    content = bytearray(path.read_bytes())
    at = tensor_entry(content, b"blk.0.attn_k.weight")
    struct.pack_into("<Q", content, at + 4, 31)
    struct.pack_into("<I", content, at + 4 + 16, int(gguf.GGMLQuantizationType.Q8_0))
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"header cannot be read|whole blocks"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"llama.block_count": None}, "field `llama.block_count` is missing"),
        ({"llama.context_length": None}, "field `llama.context_length` is missing"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon` is missing"),
        ({"llama.attention.head_count": "nine"}, "is 'nine'; expected a whole number"),
        ({"llama.attention.head_count": 0}, "is 0; expected a whole number from 1"),
        ({"llama.attention.head_count_kv": 3}, "do not divide"),
        ({"llama.block_count": 2}, r"tensor `blk\.1\.attn_norm\.weight` is missing"),
        ({"llama.embedding_length": 64}, r"has shape \[8, 32\]; the configuration says \[8, 64\]"),
        ({"llama.rope.dimension_count": 15}, "do not fit a head"),
        ({"llama.rope.scaling.type": "longrope"}, "rope scaling `longrope` is not supported"),
        ({"llama.expert_count": 8}, "mixtures of experts are not supported"),
        ({"tokenizer.ggml.eos_token_id": 8}, "token 8 lies outside the embedding of 8 rows"),
        ({"tokenizer.ggml.token_type": [1]}, "must be lists of one length"),
        ({"split.count": 2}, "one of 2 parts"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(make_gguf, fields, message) -> None:
    with pytest.raises(CheckpointError, match=message) as raised:
        build_graph(read_checkpoint(make_gguf(fields)))
    assert "tiny.gguf" in str(raised.value)


def test_an_unknown_architecture_is_refused_with_the_known_ones(make_gguf) -> None:
    path = make_gguf()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0lhama", 1))
    with pytest.raises(CheckpointError, match=r"`lhama` is not known \(nearest: llama\)") as raised:
        build_graph(read_checkpoint(path))
    assert raised.value.hint is not None
    assert "known: llama, qwen2" in raised.value.hint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokenizer.ggml.tokens": None, "tokenizer.ggml.token_type": None}, "is missing"),
        ({"tokenizer.ggml.merges": None}, "merges` is missing"),
        ({"tokenizer.ggml.merges": ["ab"]}, "merge 'ab' is no pair"),
        ({"tokenizer.ggml.merges": ["a z"]}, "library refuses"),
        ({"tokenizer.ggml.pre": "gpt-5"}, "pre-tokenizer `gpt-5` is not known; known: gpt-2"),
        ({"tokenizer.ggml.model": "rwkv"}, "tokenizer model `rwkv` is not known"),
        ({"tokenizer.ggml.tokens": ["a", "b", "ab", "a", "b"]}, "has token 'a' twice"),
    ],
)
def test_a_tokenizer_that_does_not_hold_is_refused(make_gguf, fields, message) -> None:
    checkpoint = read_checkpoint(make_gguf(fields))
    with pytest.raises(CheckpointError, match=message):
        read_tokenizer(checkpoint, vocabulary=8)


def test_a_vocabulary_larger_than_the_embedding_is_refused(make_gguf) -> None:
    tokens = ["<|end|>", "a", "b", "ab", "Ġ", "c", "d", "e", "f"]
    fields = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3] + [1] * 8}
    checkpoint = read_checkpoint(make_gguf(fields))
    with pytest.raises(CheckpointError, match="ids up to 8, but the embedding has 8 rows"):
        read_tokenizer(checkpoint, vocabulary=8)


QUANTISED = {"q8_0": 34, "q4_0": 18, "q4_1": 20, "q5_0": 22, "q4_k": 144, "q6_k": 210}


def one_tensor(path, name: str, raw: np.ndarray, kind: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType[kind.upper()])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_blocks(kind: str, rows: int, blocks: int) -> np.ndarray:
    raw = np.random.default_rng(3).integers(0, 256, (rows, blocks, QUANTISED[kind]), np.uint8)
    # Scales of about one, so that nothing overflows.
    scale = np.frombuffer(np.float16(0.7).tobytes(), np.uint8)
    if kind == "q6_k":
        raw[..., 208:210] = scale
    else:
        raw[..., 0:2] = scale
        if kind in ("q4_1", "q4_k"):
            raw[..., 2:4] = scale
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("kind", QUANTISED)
def test_every_block_format_is_read_as_its_library_reads_it(tmp_path, kind) -> None:
    raw = random_blocks(kind, rows=3, blocks=2)
    path = tmp_path / "q.gguf"
    one_tensor(path, "w", raw, kind)
    checkpoint = read_checkpoint(path)
    checkpoint.scan_for_bad_values()
    tensor = checkpoint.tensor("w")
    assert tensor.dtype == kind
    assert tensor.shape == (3, 2 * (256 if kind.endswith("k") else 32))
    assert checkpoint.raw(tensor).tobytes() == raw.tobytes()
    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind.upper()])
    np.testing.assert_array_equal(checkpoint.dequantise(tensor), expected)


@pytest.mark.parametrize("kind", QUANTISED)
def test_a_block_whose_scale_is_nan_is_found(tmp_path, kind) -> None:
    raw = random_blocks(kind, rows=3, blocks=2)
    at = 208 if kind == "q6_k" else 2 if kind in ("q4_1", "q4_k") else 0
    raw[1, QUANTISED[kind] + at : QUANTISED[kind] + at + 2] = np.frombuffer(b"\x00\x7e", np.uint8)
    path = tmp_path / "q.gguf"
    one_tensor(path, "w", raw, kind)
    with pytest.raises(CheckpointError, match=r"`w` holds NaN or infinity \(scale of block 3\)"):
        read_checkpoint(path).scan_for_bad_values()


def test_a_block_format_that_no_engine_reads_is_refused_when_used(tmp_path) -> None:
    path = tmp_path / "q.gguf"
    one_tensor(path, "w", np.zeros((2, 176), np.uint8), "q5_k")
    checkpoint = read_checkpoint(path)
    with pytest.raises(CheckpointError, match="has dtype `q5_k`; supported"):
        checkpoint.tensor("w")


@pytest.mark.parametrize("count", [2**40, 2**63, 5000])
def test_an_array_longer_than_the_file_is_refused_at_once(make_gguf, count) -> None:
    path = make_gguf()
    content = bytearray(path.read_bytes())
    at = content.index(b"tokenizer.ggml.token_type") + len(b"tokenizer.ggml.token_type") + 4 + 4
    assert struct.unpack_from("<Q", content, at) == (5,)
    struct.pack_into("<Q", content, at, count)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"header cannot be read"):
        read_checkpoint(path)
