"""Whatever is done to a file, readers give a checkpoint or a CheckpointError, nothing else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginewright.errors import CheckpointError
from enginewright.model import build_graph, execute, read_checkpoint, read_tokenizer

DAMAGE = st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=6)
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def damaged(content: bytes, damage: list[tuple[int, int]], kept: float, *, within: int) -> bytes:
    changed = bytearray(content)
    for place, value in damage:
        changed[place % min(within, len(changed))] = value
    return bytes(changed[: int(len(changed) * kept)])


def read_everything(path: Path) -> None:
    """All that `inspect` does, as far as the file allows."""
    with contextlib.suppress(CheckpointError):
        checkpoint = read_checkpoint(path)
        checkpoint.scan_for_bad_values()
        graph = build_graph(checkpoint)
        if graph.family == "llama":
            read_tokenizer(checkpoint, vocabulary=graph.dimensions.vocabulary)


@QUICK
@given(damage=DAMAGE, kept=st.sampled_from([1.0, 1.0, 0.99, 0.3]))
def test_a_damaged_gguf_file_leaks_no_foreign_error(make_gguf, damage, kept) -> None:
    path = make_gguf()
    path.write_bytes(damaged(path.read_bytes(), damage, kept, within=2200))
    read_everything(path)


@QUICK
@given(damage=DAMAGE, kept=st.sampled_from([1.0, 1.0, 0.99, 0.3]))
def test_a_damaged_safetensors_file_leaks_no_foreign_error(
    tmp_path, tiny_folder, damage, kept
) -> None:
    source = tiny_folder / "bert_mean"
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    content = (source / "model.safetensors").read_bytes()
    path = tmp_path / "model.safetensors"
    path.write_bytes(damaged(content, damage, kept, within=4000))
    read_everything(tmp_path)


@QUICK
@given(
    damage=DAMAGE, name=st.sampled_from(["config.json", "modules.json", "1_Pooling/config.json"])
)
def test_damaged_configurations_leak_no_foreign_error(tmp_path, tiny_folder, damage, name) -> None:
    source = tiny_folder / "bert_cls"
    for path in source.rglob("*.json"):
        target = tmp_path / path.relative_to(source)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    if not (tmp_path / "model.safetensors").exists():
        (tmp_path / "model.safetensors").symlink_to(source / "model.safetensors")
    path = tmp_path / name
    path.write_bytes(damaged(path.read_bytes(), damage, 1.0, within=1 << 30))
    read_everything(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)


@QUICK
@given(value=JSON, number=st.integers(0, 100))
def test_any_value_in_any_config_field_leaks_no_foreign_error(
    make_safetensors, tiny_folder, value, number
) -> None:
    checkpoint = read_checkpoint(tiny_folder / "llama_untied_llama3")
    config = dict(checkpoint.config)
    name = sorted(config)[number % len(config)]
    changed = type(checkpoint)(
        name="changed",
        format=checkpoint.format,
        folder=checkpoint.folder,
        files=checkpoint.files,
        tensors=checkpoint.tensors,
        config=config | {name: value},
    )
    with contextlib.suppress(CheckpointError):
        build_graph(changed)


def test_the_undamaged_files_are_read_in_whole(make_gguf, tiny_folder) -> None:
    for path in (make_gguf(), tiny_folder / "bert_mean", tiny_folder / "bert_cls"):
        checkpoint = read_checkpoint(path)
        assert len(execute(build_graph(checkpoint), checkpoint, [[1, 2, 3]])) == 1


def test_a_broken_tokenizer_file_is_refused(minilm, tmp_path) -> None:
    from enginewright.model import load_tokenizer

    for text in ("", "{", "{}", '{"model": 3}'):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(CheckpointError, match="tokenizers library refuses"):
            load_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(CheckpointError, match="the tokenizer is missing"):
        load_tokenizer(tmp_path / "none.json")
