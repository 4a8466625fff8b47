"""Damaged safetensors files end in one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from enginewright.errors import CheckpointError
from enginewright.model import read_checkpoint

GOOD = {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": GOOD["a"] | changes}


def test_a_whole_file_gives_its_table(make_safetensors) -> None:
    folder = make_safetensors(GOOD, np.arange(4, dtype=np.float32).tobytes())
    checkpoint = read_checkpoint(folder)
    tensor = checkpoint.tensor("a")
    assert (tensor.bytes, tensor.dtype, tensor.shape) == (16, "f32", (2, 2))
    assert checkpoint.dequantise(tensor).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (GOOD, b"\0" * 8, "lies at bytes"),
        (entry(data_offsets=[16, 32]), b"\0" * 16, "lies at bytes"),
        (entry(data_offsets=[0, 12]), b"\0" * 16, "has 12 bytes, but shape"),
        (entry(data_offsets=[16, 0]), b"\0" * 16, "data_offsets"),
        (entry(data_offsets=[-16, 0]), b"\0" * 16, "data_offsets"),
        (entry(data_offsets=[0]), b"\0" * 16, "data_offsets"),
        (entry(data_offsets=[0, 2**70]), b"\0" * 16, "data_offsets"),
        (entry(shape=[2, -2]), b"\0" * 16, "field `shape`"),
        (entry(shape=[2, 2.0]), b"\0" * 16, "field `shape`"),
        (entry(shape=[0, 2], data_offsets=[0, 0]), b"", "every size must be positive"),
        (entry(shape=[2**40, 2**40]), b"\0" * 16, "every size must be positive"),
        (entry(shape=[1] * 9, data_offsets=[0, 4]), b"\0" * 4, "9 dimensions"),
        (entry(dtype=3), b"\0" * 16, "field `dtype`"),
        (entry(dtype="F99"), b"\0" * 16, "library refuses"),
        (entry(dtype="I64"), b"\0" * 16, "has 16 bytes, but shape"),
        ({"a": 3}, b"", "expected an object"),
        (b"[1, 2]", b"", "expected an object"),
        (b'{"a": ', b"", "not JSON"),
        (b"\xff\xfe{}", b"", "not JSON"),
        (b"[" * 100_000, b"", "not JSON"),
        (b'{"a": NaN}', b"", "not JSON"),
        (b"{}", b"", "holds no tensors"),
        (GOOD, b"\0" * 24, "library refuses"),
    ],
)
def test_a_header_that_lies_is_refused(make_safetensors, header, data, message) -> None:
    folder = make_safetensors(header, data)
    with pytest.raises(CheckpointError, match=message) as raised:
        read_checkpoint(folder)
    assert "model.safetensors" in str(raised.value)


def test_a_name_that_appears_twice_is_refused(make_safetensors) -> None:
    one = json.dumps(GOOD["a"])
    folder = make_safetensors(f'{{"a":{one},"a":{one}}}'.encode(), b"\0" * 16)
    with pytest.raises(CheckpointError, match="names `a` twice"):
        read_checkpoint(folder)


def test_overlapping_tensors_are_refused(make_safetensors) -> None:
    header = GOOD | {"b": {"dtype": "F32", "shape": [2, 2], "data_offsets": [8, 24]}}
    folder = make_safetensors(header, b"\0" * 24)
    with pytest.raises(CheckpointError, match="`a` and `b` overlap"):
        read_checkpoint(folder)


@pytest.mark.parametrize("length", [2**63, 200_000_000, 1000, 0])
def test_a_header_length_that_lies_is_refused(make_safetensors, length) -> None:
    folder = make_safetensors(GOOD, b"\0" * 16, length=length)
    with pytest.raises(CheckpointError, match="header"):
        read_checkpoint(folder)


@pytest.mark.parametrize("kept", [0, 4, 8, 20, 80])
def test_a_truncated_file_is_refused(make_safetensors, kept) -> None:
    folder = make_safetensors(GOOD, b"\0" * 16)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"empty|header|lies at bytes"):
        read_checkpoint(folder)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no weights found"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("text", [None, "{", "[]", "\x00"])
def test_a_missing_or_broken_config_is_refused(make_safetensors, text) -> None:
    folder = make_safetensors(GOOD, b"\0" * 16)
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_checkpoint(folder)


def write_shards(folder: Path, weight_map: Any) -> None:
    for number, name in enumerate("ab"):
        save_file({name: np.zeros(4, np.float32)}, folder / f"part-{number}.safetensors")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    write_shards(tmp_path, {"a": "part-0.safetensors", "b": "part-1.safetensors"})
    checkpoint = read_checkpoint(tmp_path)
    assert [file.path for file in checkpoint.files] == ["part-0.safetensors", "part-1.safetensors"]
    assert (checkpoint.tensor("a").file, checkpoint.tensor("b").file) == (0, 1)
    assert read_checkpoint(tmp_path / "part-0.safetensors").files == checkpoint.files


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "../x.safetensors"}, "inside the checkpoint's folder"),
        ({"a": "/etc/x.safetensors"}, "inside the checkpoint's folder"),
        ({"a": "C:\\x.safetensors"}, "inside the checkpoint's folder"),
        ({"a": "sub\\..\\..\\x.safetensors"}, "inside the checkpoint's folder"),
        ({"a": "config.json"}, "inside the checkpoint's folder"),
        ({"a": "part-0\0.safetensors"}, "inside the checkpoint's folder"),
        ({"a": "part-9.safetensors"}, "names shard `part-9.safetensors`, which is not in"),
        ({"a": 3}, "expected a file name"),
        ({}, "non-empty object"),
        ("a", "non-empty object"),
        ({"a": "part-1.safetensors"}, "it is in no shard"),
        ({"a": "part-1.safetensors", "b": "part-0.safetensors"}, "but it is in part-"),
        ({"a": "part-0.safetensors", "c": "part-1.safetensors"}, "it is in no shard"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: Path, weight_map, message) -> None:
    write_shards(tmp_path, weight_map)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write_shards(tmp_path, {"a": "part-0.safetensors", "b": "part-1.safetensors"})
    both = {name: np.zeros(4, np.float32) for name in "ab"}
    save_file(both, tmp_path / "part-1.safetensors")
    with pytest.raises(CheckpointError, match="`a` is in both"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinite_weights_are_found(make_safetensors, dtype, bad) -> None:
    values = np.array([[1, 2], [3, bad]], np.float32)
    data = {
        "F32": values.tobytes(),
        "F16": values.astype(np.float16).tobytes(),
        "BF16": (values.view(np.uint32) >> 16).astype(np.uint16).tobytes(),
    }[dtype]
    folder = make_safetensors(entry(dtype=dtype, data_offsets=[0, len(data)]), data)
    checkpoint = read_checkpoint(folder)
    with pytest.raises(CheckpointError, match=r"tensor `a` holds NaN or infinity \(value 3\)"):
        checkpoint.scan_for_bad_values()


def test_an_unsupported_dtype_is_refused_only_when_it_is_used(make_safetensors) -> None:
    folder = make_safetensors(entry(dtype="I32"), b"\0" * 16)
    checkpoint = read_checkpoint(folder)
    checkpoint.scan_for_bad_values()
    with pytest.raises(CheckpointError, match="has dtype `i32`; supported: f32, f16, bf16, q8_0"):
        checkpoint.tensor("a")


def test_a_file_that_changed_after_reading_is_refused(make_safetensors) -> None:
    folder = make_safetensors(GOOD, b"\0" * 16)
    checkpoint = read_checkpoint(folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="the file changed"):
        checkpoint.dequantise(checkpoint.tensor("a"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere/at/all.gguf", "no file or folder"),
        ("package:no_such_package_here/x.gguf", "is not installed"),
        ("package:enginewright/../x", "may not leave"),
        ("package:enginewright/nothing.gguf", "no file or folder"),
        ("package:1bad-name/x", "no package name"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(spec, message) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(spec)


def test_another_digest_than_expected_is_refused(make_safetensors) -> None:
    folder = make_safetensors(GOOD, b"\0" * 16)
    digest = read_checkpoint(folder).sha256()
    assert read_checkpoint(folder, sha256=digest[:12].upper()).sha256() == digest
    with pytest.raises(CheckpointError, match="expected 00000000"):
        read_checkpoint(folder, sha256="00000000")
    with pytest.raises(CheckpointError, match="hexadecimal"):
        read_checkpoint(folder, sha256="xyz")
