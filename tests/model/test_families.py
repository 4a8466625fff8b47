"""Every family gives what transformers gives, on random models with what real ones vary in."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from enginewright.errors import CheckpointError
from enginewright.model import build_graph, execute, read_checkpoint
from enginewright.model.families.llama_config import CONFIG_NAMES, GGUF_NAMES

TINY = [
    "bert_cls",
    "bert_mean",
    "llama_biases_linear_f16",
    "llama_tied_yarn_sharded_bf16",
    "llama_untied_llama3",
    "mistral_window",
    "qwen2_biases",
    "qwen3_5_dense",
    "qwen3_5_moe",
    "qwen3_head_norms",
    "qwen3_tied_window",
]


MOST_DIFFERENCE = {"qwen3_5_dense": 5e-5, "qwen3_5_moe": 5e-5}
"""2e-5 for the others. transformers computes the delta rule in chunks, by a triangular inverse in
float32; we do it row by row."""


def test_every_recorded_model_is_tested(tiny_folder: Path) -> None:
    assert sorted(path.name for path in tiny_folder.iterdir()) == TINY


@pytest.mark.parametrize("name", TINY)
def test_the_reference_agrees_with_transformers(tiny_folder: Path, name: str) -> None:
    checkpoint = read_checkpoint(tiny_folder / name)
    expected = load_file(tiny_folder / name / "expected.safetensors")
    answer = execute(build_graph(checkpoint), checkpoint, [expected["ids"].tolist()])[0]
    most = MOST_DIFFERENCE.get(name, 2e-5)
    np.testing.assert_allclose(answer, expected["answer"], rtol=0, atol=most)


def permuted(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Rows of Q or K in the order of llama.cpp's converter: pairs become neighbours."""
    halves = matrix.reshape(heads, 2, -1, *matrix.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(matrix.shape))


def llama3_divisors(rope) -> np.ndarray:
    """`rope_freqs.weight` for heads of 16, as llama.cpp's converter computes it."""
    divisors = []
    for place in range(0, 16, 2):
        turns = rope["original_max_position_embeddings"] / (2 * np.pi * 10000.0 ** (place / 16))
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (turns - low) / (high - low)
        if turns > high:
            divisors.append(1.0)
        elif turns < low:
            divisors.append(rope["factor"])
        else:
            divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(divisors, np.float32)


def write_gguf(
    folder: Path, path: Path, architecture: str, rope: dict[str, float | int | str]
) -> None:
    """The model in `folder` as its converter would write it, in float32."""
    checkpoint = read_checkpoint(folder)
    config = checkpoint.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config["rope_parameters"]["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config["rope_parameters"]))
    for name, value in rope.items():
        adders = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}
        adders[type(value)](f"{architecture}.rope.{name}", value)
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    for role, theirs in (CONFIG_NAMES | {"head": "lm_head"}).items():
        for layer in range(config["num_hidden_layers"] if "{}" in theirs else 1):
            for suffix in ("", ".weight", ".bias"):
                name = ("" if role == "head" else "model.") + theirs.format(layer) + suffix
                if name not in checkpoint.tensors:
                    continue
                values = checkpoint.dequantise(checkpoint.tensor(name))
                if role in heads and architecture == "llama":
                    values = permuted(values, heads[role])
                writer.add_tensor(GGUF_NAMES[role].format(layer) + suffix, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


YARN = {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 32}


@pytest.mark.parametrize(
    ("name", "architecture", "rope"),
    [
        ("llama_biases_linear_f16", "llama", {"scaling.type": "linear", "scaling.factor": 3.0}),
        ("llama_tied_yarn_sharded_bf16", "llama", YARN),
        ("llama_untied_llama3", "llama", {}),
        ("qwen2_biases", "qwen2", {}),
        ("qwen3_head_norms", "qwen3", {}),
    ],
)
def test_the_same_model_as_gguf_gives_the_same_answer(
    tiny_folder: Path, tmp_path: Path, name: str, architecture: str, rope
) -> None:
    path = tmp_path / "twin.gguf"
    write_gguf(tiny_folder / name, path, architecture, {"freq_base": 10000.0, **rope})
    checkpoint = read_checkpoint(path)
    expected = load_file(tiny_folder / name / "expected.safetensors")
    answer = execute(build_graph(checkpoint), checkpoint, [expected["ids"].tolist()])[0]
    np.testing.assert_allclose(answer, expected["answer"], rtol=0, atol=2e-5)


def changed_folder(source: Path, target: Path, file: str, **changes: object) -> Path:
    """A copy of `source` with fields of one of its JSON files replaced (None: removed)."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    content = json.loads((target / file).read_text())
    content = {key: value for key, value in (content | changes).items() if value is not None}
    (target / file).write_text(json.dumps(content))
    return target


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("llama_untied_llama3", {"model_type": "gpt9"}, "architecture `gpt9` is not known"),
        ("llama_untied_llama3", {"model_type": None}, "field `model_type` is None"),
        ("llama_untied_llama3", {"hidden_size": None}, "field `hidden_size` is missing"),
        ("llama_untied_llama3", {"hidden_act": "relu"}, "expected silu"),
        ("llama_untied_llama3", {"vocab_size": None, "num_hidden_layers": 3}, "layers.2"),
        (
            "llama_untied_llama3",
            {"rope_parameters": {"rope_type": "llama3"}},
            "`factor` is missing",
        ),
        ("llama_untied_llama3", {"rope_parameters": {"rope_type": "su"}}, "`su` is not supported"),
        ("llama_untied_llama3", {"rope_parameters": 3}, "expected an object"),
        ("llama_untied_llama3", {"partial_rotary_factor": 0.5}, "turn whole heads"),
        ("qwen3_head_norms", {"head_dim": 32}, r"the configuration says \[128, 64\]"),
        ("qwen3_head_norms", {"head_dim": None}, r"the configuration says \[512, 64\]"),
        ("qwen2_biases", {"model_type": "qwen3", "head_dim": 16}, r"q_norm\.weight` is missing"),
        ("qwen3_5_dense", {"layer_types": ["full_attention"]}, "expected a list of 4"),
        ("qwen3_5_dense", {"layer_types": ["full_attention", "x", "y", "z"]}, "layer 1: 'x'"),
        ("qwen3_5_dense", {"linear_num_key_heads": 3}, "4 heads do not divide into 3"),
        ("qwen3_5_dense", {"linear_conv_kernel_dim": 5}, r"the configuration says \[160, 1, 5\]"),
        ("qwen3_5_dense", {"rope_parameters": {"partial_rotary_factor": 0.01}}, "turns 0 values"),
        ("qwen3_5_moe", {"num_experts_per_tok": 7}, "a whole number from 1 to 6"),
        ("qwen3_5_moe", {"num_experts": 8}, r"the configuration says \[8, 64\]"),
        ("qwen3_5_moe", {"norm_topk_prob": False}, "only True is supported"),
        ("qwen3_5_dense", {"linear_value_head_dim": 25}, r"the configuration says \[164, 64\]"),
        ("bert_mean", {"position_embedding_type": "relative_key"}, "expected absolute"),
        ("bert_mean", {"hidden_act": "relu"}, "expected one of gelu"),
        ("bert_mean", {"num_attention_heads": 5}, "does not divide into 5 heads"),
        ("bert_mean", {"vocab_size": 200}, r"the configuration says \[200, 64\]"),
        ("bert_mean", {"is_decoder": True}, "as a decoder"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(
    tiny_folder: Path, tmp_path: Path, name: str, changes, message: str
) -> None:
    folder = changed_folder(tiny_folder / name, tmp_path / "changed", "config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        build_graph(read_checkpoint(folder))


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True}, "expected exactly one"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": False}, "expected exactly one"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 65}, "the encoder is 64 wide"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": 1}, "expected true or false"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "expected a whole number"),
    ],
)
def test_a_pooling_that_no_engine_has_is_refused(
    tiny_folder: Path, tmp_path: Path, file: str, changes, message: str
) -> None:
    folder = changed_folder(tiny_folder / "bert_cls", tmp_path / "changed", file, **changes)
    with pytest.raises(CheckpointError, match=message):
        build_graph(read_checkpoint(folder))


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([], "names no Pooling module"),
        ({}, "expected a list"),
        ([{"type": "x.Dense", "path": ""}], "module 0 is `x.Dense`"),
        ([{"type": "x.Pooling", "path": "../1_Pooling"}], "a folder inside this one"),
    ],
)
def test_modules_that_no_engine_has_are_refused(
    tiny_folder: Path, tmp_path: Path, modules, message: str
) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(tiny_folder / "bert_cls", folder)
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(CheckpointError, match=message):
        build_graph(read_checkpoint(folder))


def test_the_sequence_limit_of_a_sentence_encoder_is_its_context(tiny_folder: Path) -> None:
    assert build_graph(read_checkpoint(tiny_folder / "bert_cls")).dimensions.context == 48


def with_fp8_expert(source: Path, target: Path, *, has_scales: bool) -> Path:
    """A copy of `source` whose first expert's gate matrix is FP8, by hand: NumPy lacks the type."""
    shutil.copytree(source, target)
    name = "model.layers.0.mlp.experts.0.gate_proj.weight"
    path = target / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    start, end = header[name]["data_offsets"]
    # The second half of its bytes becomes another tensor, so that the file has no hole.
    middle = (start + end) // 2
    header[name] = {"dtype": "F8_E4M3", "shape": [32, 64], "data_offsets": [start, middle]}
    other = f"{name}_scale_inv" if has_scales else "spare"
    header[other] = {"dtype": "F32", "shape": [32, 16], "data_offsets": [middle, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return target


@pytest.mark.parametrize(
    ("has_scales", "message"),
    [(False, "gate_proj.weight_scale_inv` are missing"), (True, "f32, f16 and bf16 only")],
)
def test_experts_in_fp8_are_refused_and_missing_scales_are_named(
    tiny_folder: Path, tmp_path: Path, has_scales: bool, message: str
) -> None:
    folder = with_fp8_expert(
        tiny_folder / "qwen3_5_moe", tmp_path / "changed", has_scales=has_scales
    )
    with pytest.raises(CheckpointError, match=re.escape(message)):
        build_graph(read_checkpoint(folder))
