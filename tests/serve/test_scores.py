"""Log probabilities: of generated tokens, of given ones, in both of OpenAI's forms."""

from __future__ import annotations

import math

import pytest

GIVEN = "The capital of France is Paris, and the capital of Italy is Rome."


def test_given_tokens_are_scored_but_the_first(chat) -> None:
    answer = chat.completions.create(
        model="smol",
        prompt=GIVEN,
        max_tokens=0,
        echo=True,
        logprobs=1,
        extra_body={"return_token_ids": True},
    )
    choice = answer.choices[0]
    scores = choice.logprobs
    assert choice.text == GIVEN and "".join(scores.tokens) == GIVEN
    count = len(choice.prompt_token_ids)
    assert len(scores.tokens) == len(scores.token_logprobs) == len(scores.top_logprobs) == count
    assert scores.token_logprobs[0] is None and scores.top_logprobs[0] is None
    for score, top in zip(scores.token_logprobs[1:], scores.top_logprobs[1:], strict=True):
        assert -100 < score <= 0
        assert max(top.values()) >= score
    assert [GIVEN[offset:][:1] for offset in scores.text_offset] == [
        token[:1] for token in scores.tokens
    ]
    assert answer.usage.completion_tokens == 0 and answer.usage.prompt_tokens == count


def test_scores_of_given_tokens_are_those_of_the_generated_ones(chat) -> None:
    made = chat.completions.create(
        model="smol",
        prompt="The capital of France is",
        max_tokens=12,
        temperature=0,
        logprobs=2,
        extra_body={"return_token_ids": True, "ignore_eos": True},
    ).choices[0]
    given = chat.completions.create(
        model="smol",
        prompt=made.prompt_token_ids + made.token_ids,
        max_tokens=0,
        echo=True,
        logprobs=2,
    ).choices[0]
    rescored = given.logprobs.token_logprobs[-12:]
    assert rescored == pytest.approx(made.logprobs.token_logprobs, abs=2e-3)
    for token, top in zip(made.logprobs.token_logprobs, made.logprobs.top_logprobs, strict=True):
        assert token == max(top.values()), "greedy tokens are the likeliest"


def test_parts_of_characters_are_told_as_bytes(chat) -> None:
    text = "a 🦀 日本 b"
    scores = (
        chat.completions.create(model="smol", prompt=text, max_tokens=0, echo=True, logprobs=0)
        .choices[0]
        .logprobs
    )
    raw = b"".join(
        bytes.fromhex(token.removeprefix("bytes:").replace("\\x", ""))
        if token.startswith("bytes:")
        else token.encode()
        for token in scores.tokens
    )
    assert raw.decode() == text
    assert any(token.startswith("bytes:") for token in scores.tokens)
    assert scores.text_offset[-1] == len(text) - len(scores.tokens[-1])


def test_chat_scores_name_the_likeliest_and_their_bytes(chat) -> None:
    answer = chat.chat.completions.create(
        model="smol",
        messages=[{"role": "user", "content": "Write: café 🦀"}],
        max_tokens=16,
        temperature=0,
        logprobs=True,
        top_logprobs=5,
        extra_body={"ignore_eos": True},
    ).choices[0]
    content = answer.logprobs.content
    assert len(content) == 16
    for entry in content:
        assert len(entry.top_logprobs) == 5
        assert entry.top_logprobs[0].logprob == entry.logprob
        falling = [top.logprob for top in entry.top_logprobs]
        assert falling == sorted(falling, reverse=True)
        assert sum(math.exp(value) for value in falling) <= 1 + 1e-5
        assert entry.bytes


def test_streamed_scores_are_those_of_the_whole_answer(chat) -> None:
    request = {
        "model": "smol",
        "messages": [{"role": "user", "content": "Count to five."}],
        "max_tokens": 12,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 2,
        "extra_body": {"ignore_eos": True},
    }
    whole = chat.chat.completions.create(**request).choices[0].logprobs.content
    chunks = chat.chat.completions.create(**request, stream=True)
    streamed = [
        entry
        for chunk in chunks
        for choice in chunk.choices
        if choice.logprobs
        for entry in choice.logprobs.content
    ]
    assert streamed == whole


def test_a_bias_forbids_a_token(chat) -> None:
    request = {"model": "smol", "prompt": "The capital of France is", "temperature": 0}
    first = chat.completions.create(**request, max_tokens=1, extra_body={"return_token_ids": True})
    token = first.choices[0].token_ids[0]
    other = chat.completions.create(
        **request,
        max_tokens=1,
        logit_bias={str(token): -100},
        extra_body={"return_token_ids": True},
    )
    assert other.choices[0].token_ids[0] != token
