"""Tokenizers give the ids that transformers and llama.cpp give, and survive being written."""

from __future__ import annotations

import json

import jinja2
import pytest

from enginewright.errors import CheckpointError, MachineError
from enginewright.model import (
    Graph,
    build_graph,
    load_tokenizer,
    read_checkpoint,
    read_tokenizer,
    write_engine_inputs,
    write_tokenizer,
)


@pytest.mark.parametrize("name", ["smollm2", "minilm"])
def test_texts_become_the_recorded_tokens(request, tmp_path, name) -> None:
    model = request.getfixturevalue(name)
    path = tmp_path / "tokenizer.json"
    write_tokenizer(model.checkpoint, path, vocabulary=model.graph.dimensions.vocabulary)
    tokenizer = load_tokenizer(path)
    assert len(model.golden.cases) >= 6
    for case in model.golden.cases:
        ids = tokenizer.encode(case.text, add_special_tokens=name == "minilm").ids
        assert ids == list(case.ids), case.name


def test_tokens_become_the_text_again(smollm2) -> None:
    tokenizer = read_tokenizer(smollm2.checkpoint, vocabulary=49152)
    for case in smollm2.golden.cases:
        assert tokenizer.decode(list(case.ids), skip_special_tokens=False) == case.text


def test_chats_are_rendered_as_recorded(smollm2) -> None:
    text = smollm2.graph.text
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(
        text.chat_template
    )
    chats = [case for case in smollm2.golden.cases if case.messages is not None]
    assert len(chats) == 2
    for case in chats:
        assert template.render(messages=case.messages, add_generation_prompt=True) == case.text


def test_the_text_part_of_a_gguf_graph_names_every_end_of_an_answer(smollm2) -> None:
    text = smollm2.graph.text
    assert (text.bos_id, text.bos_token, text.add_bos) == (1, "<|im_start|>", False)
    assert (text.eos_ids, text.eos_token) == ([2, 0], "<|im_end|>")


def test_special_tokens_in_a_text_are_one_token(smollm2) -> None:
    tokenizer = read_tokenizer(smollm2.checkpoint, vocabulary=49152)
    assert tokenizer.encode("<|im_end|>").ids == [2]
    assert tokenizer.decode([504, 2]) == "The"


SPM = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "▁a", "aa"],
    "tokenizer.ggml.token_type": [2, 3, 3, 6, 1, 1, 1, 1],
    "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, -3.0, -4.0, -1.0, -2.0],
    "tokenizer.ggml.merges": None,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


def test_a_sentencepiece_tokenizer_merges_by_score_and_falls_back_to_bytes(make_gguf) -> None:
    checkpoint = read_checkpoint(make_gguf(SPM))
    tokenizer = read_tokenizer(checkpoint, vocabulary=8)
    # "▁aaa": "▁a" has the best score, then "aa".
    assert tokenizer.encode("aaa").ids == [1, 6, 7]
    assert tokenizer.encode("a\n", add_special_tokens=False).ids == [6, 3]
    assert tokenizer.decode([6, 3, 4, 7]) == "a\n aa"
    text = build_graph(checkpoint).text
    assert (text.add_bos, text.bos_id, text.eos_ids) == (True, 1, [2])


def test_scores_that_do_not_match_the_tokens_are_refused(make_gguf) -> None:
    checkpoint = read_checkpoint(make_gguf(SPM | {"tokenizer.ggml.scores": [0.0]}))
    with pytest.raises(CheckpointError, match=r"scores` must be a list as long as the tokens"):
        read_tokenizer(checkpoint, vocabulary=8)


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("gpt-2", "ab 1234 x", ["ab", "Ġ1234", "Ġx"]),
        ("smollm", "ab 1234 x", ["ab", "Ġ", "1", "2", "3", "4", "Ġx"]),
        ("llama-bpe", "ab 1234 I'LL", ["ab", "Ġ", "123", "4", "ĠI", "'LL"]),
        ("qwen2", "ab 1234\n\nx", ["ab", "Ġ", "1", "2", "3", "4", "ĊĊ", "x"]),
    ],
)
def test_each_pre_tokenizer_cuts_as_its_model_was_trained(make_gguf, pre, text, pieces) -> None:
    checkpoint = read_checkpoint(make_gguf({"tokenizer.ggml.pre": pre}))
    tokenizer = read_tokenizer(checkpoint, vocabulary=8)
    assert [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)] == pieces


def test_a_llama3_tokenizer_puts_its_first_token_in_front_once(make_gguf) -> None:
    fields = {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.bos_token_id": 4}
    checkpoint = read_checkpoint(make_gguf(fields))
    tokenizer = read_tokenizer(checkpoint, vocabulary=8)
    assert tokenizer.encode("ab").ids == [4, 3]
    assert tokenizer.encode("ab", add_special_tokens=False).ids == [3]
    assert build_graph(checkpoint).text.add_bos


def test_limits_of_a_training_script_are_not_taken_over(minilm, tmp_path) -> None:
    content = json.loads((minilm.checkpoint.folder / "tokenizer.json").read_text())
    assert content["truncation"] is not None
    tokenizer = read_tokenizer(minilm.checkpoint, vocabulary=30522)
    assert len(tokenizer.encode("word " * 600).ids) == 602


def test_a_tokenizer_larger_than_the_embedding_is_refused(minilm) -> None:
    with pytest.raises(CheckpointError, match="ids up to 30521, but the embedding has 30000 rows"):
        read_tokenizer(minilm.checkpoint, vocabulary=30000)


def test_engine_inputs_are_written_whole_or_not_at_all(minilm, tiny_folder, tmp_path) -> None:
    write_engine_inputs(minilm.graph, minilm.checkpoint, tmp_path / "engine")
    written = sorted(path.name for path in (tmp_path / "engine").iterdir())
    assert written == ["graph.json", "tokenizer.json"]
    assert Graph.from_json((tmp_path / "engine/graph.json").read_bytes()) == minilm.graph
    without = read_checkpoint(tiny_folder / "bert_cls")
    with pytest.raises(CheckpointError, match="the tokenizer is missing"):
        write_engine_inputs(build_graph(without), without, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_folder_that_cannot_be_written_is_an_error_of_the_machine(minilm, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        write_engine_inputs(minilm.graph, minilm.checkpoint, tmp_path / "file/engine")


def test_a_full_disk_leaves_nothing_half_written(minilm, tmp_path, monkeypatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("enginewright.model.tokenizer.os.fsync", no_space)
    with pytest.raises(MachineError, match="No space left") as raised:
        write_engine_inputs(minilm.graph, minilm.checkpoint, tmp_path / "engine")
    assert raised.value.hint == "free some space"
    assert list((tmp_path / "engine").iterdir()) == []
