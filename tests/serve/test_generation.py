"""Chats and completions by the official client: words, tokens, the same bytes in any company."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SPELLABLE = st.characters(
    max_codepoint=0x3FFFF, exclude_categories=["Cs"], exclude_characters="\x04\x06\x13\x14\x16\x1d"
)
"""What SmolLM2's tokens can spell: they lack a few bytes."""

PARIS = [{"role": "user", "content": "What is the capital of France? One word."}]


def test_a_chat_answers_and_counts_its_tokens(chat) -> None:
    answer = chat.chat.completions.create(
        model="smol", messages=PARIS, max_tokens=24, temperature=0
    )
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in {"stop", "length"}
    usage = answer.usage
    assert 0 < usage.completion_tokens <= 24
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_content_in_text_parts_is_the_same_chat(chat) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": PARIS[0]["content"]}]}]
    answers = [
        chat.chat.completions.create(model="smol", messages=messages, max_tokens=8, temperature=0)
        for messages in (PARIS, parts)
    ]
    assert answers[0].choices[0].message.content == answers[1].choices[0].message.content
    assert answers[0].usage == answers[1].usage


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_limit_hold(chat, name) -> None:
    answer = chat.chat.completions.create(
        model="smol",
        messages=PARIS,
        temperature=0,
        extra_body={name: 3, "ignore_eos": True},
    )
    assert answer.usage.completion_tokens == 3
    assert answer.choices[0].finish_reason == "length"


def test_streamed_pieces_are_the_whole_answer(chat) -> None:
    whole = chat.chat.completions.create(model="smol", messages=PARIS, max_tokens=24, temperature=0)
    chunks = list(
        chat.chat.completions.create(
            model="smol",
            messages=PARIS,
            max_tokens=24,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole.choices[0].message.content
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == whole.choices[0].finish_reason and set(reasons[:-1]) == {None}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage == whole.usage and not chunks[-1].choices
    assert len({chunk.id for chunk in chunks}) == 1


def test_every_streamed_token_comes_with_its_id(chat) -> None:
    asked = {"return_token_ids": True, "ignore_eos": True}
    request = {"model": "smol", "prompt": "Emoji: 🦀 é", "max_tokens": 12, "temperature": 0}
    whole = chat.completions.create(**request, extra_body=asked).choices[0]
    chunks = list(chat.completions.create(**request, stream=True, extra_body=asked))
    ids = [id for chunk in chunks for choice in chunk.choices for id in choice.token_ids or []]
    assert ids == whole.token_ids and len(ids) == 12
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.text
    assert len(whole.prompt_token_ids) > 3


def test_an_end_token_ends_the_answer_and_is_among_its_ids(chat) -> None:
    answer = chat.chat.completions.create(
        model="smol",
        messages=[{"role": "user", "content": "Say hi."}],
        max_tokens=200,
        temperature=0,
        extra_body={"return_token_ids": True},
    )
    choice = answer.choices[0]
    assert choice.finish_reason == "stop"
    assert choice.token_ids[-1] in (0, 2)
    assert "<|im_end|>" not in choice.message.content
    assert answer.usage.completion_tokens == len(choice.token_ids)


def test_ids_and_text_are_the_same_prompt(chat) -> None:
    first = chat.completions.create(
        model="smol",
        prompt="The sky is",
        max_tokens=6,
        temperature=0,
        extra_body={"return_token_ids": True},
    )
    again = chat.completions.create(
        model="smol", prompt=first.choices[0].prompt_token_ids, max_tokens=6, temperature=0
    )
    assert again.choices[0].text == first.choices[0].text
    assert again.usage == first.usage


def test_several_prompts_and_choices_keep_their_order(chat) -> None:
    prompts = ["One two three", "The sea is", "A b c d"]
    alone = [
        chat.completions.create(model="smol", prompt=prompt, max_tokens=5, temperature=0)
        for prompt in prompts
    ]
    together = chat.completions.create(
        model="smol", prompt=prompts, max_tokens=5, temperature=0, n=2
    )
    assert [choice.index for choice in together.choices] == [0, 1, 2, 3, 4, 5]
    expected = [answer.choices[0].text for answer in alone for _ in range(2)]
    assert [choice.text for choice in together.choices] == expected


def test_a_prompt_of_many_chunks_answers_as_in_company(chat) -> None:
    long = "The quick brown fox jumps over the lazy dog. " * 20
    prompts = [long, "Once upon a time", long[9:], "In the beginning", long + "x", "1 2 3"]

    def ask(prompt: str) -> str:
        answer = chat.completions.create(
            model="smol", prompt=prompt, max_tokens=16, temperature=0.9, seed=11
        )
        return answer.choices[0].text

    alone = [ask(prompt) for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as threads:
        assert list(threads.map(ask, prompts)) == alone


def test_a_seed_repeats_an_answer_and_others_differ(chat) -> None:
    def ask(seed: int) -> str:
        answer = chat.completions.create(
            model="smol", prompt="My favourite", max_tokens=16, temperature=1.2, seed=seed
        )
        return answer.choices[0].text

    assert ask(5) == ask(5)
    assert len({ask(seed) for seed in range(4)}) > 1


def test_choices_of_one_seed_differ_but_repeat(chat) -> None:
    def ask() -> list[str]:
        answer = chat.completions.create(
            model="smol", prompt="My favourite", max_tokens=12, temperature=1.2, seed=3, n=3
        )
        return [choice.text for choice in answer.choices]

    first = ask()
    assert len(set(first)) > 1
    assert ask() == first


def test_one_likely_token_is_the_greedy_one(chat) -> None:
    request = {"model": "smol", "prompt": "My favourite", "max_tokens": 8}
    greedy = chat.completions.create(**request, temperature=0).choices[0].text
    narrow = chat.completions.create(**request, temperature=1.5, extra_body={"top_k": 1})
    nucleus = chat.completions.create(**request, temperature=1, top_p=1e-6)
    least = chat.completions.create(**request, temperature=1, extra_body={"min_p": 1.0})
    assert {answer.choices[0].text for answer in (narrow, nucleus, least)} == {greedy}


def test_a_stop_text_ends_the_answer_before_it(chat) -> None:
    request = {"model": "smol", "prompt": "Count: one two three four", "temperature": 0}
    text = chat.completions.create(**request, max_tokens=24).choices[0].text
    stop = text[len(text) // 2 :][:5]
    answer = chat.completions.create(**request, max_tokens=24, stop=["never said", stop])
    assert answer.choices[0].text == text[: text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"
    streamed = chat.completions.create(**request, max_tokens=24, stop=stop, stream=True)
    pieces = [chunk.choices[0].text for chunk in streamed if chunk.choices]
    assert "".join(pieces) == text[: text.index(stop)]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(SPELLABLE, min_size=1, max_size=40))
def test_any_text_comes_back_as_its_echo(chat, text) -> None:
    answer = chat.completions.create(
        model="smol", prompt=text, max_tokens=0, echo=True, temperature=0
    )
    assert answer.choices[0].text == text


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**31), stop=st.sampled_from(["e", "\n", "th", ". ", "é", "🦀"]))
def test_wild_streams_hold_whole_characters_and_nothing_after_a_stop(chat, seed, stop) -> None:
    request = {
        "model": "smol",
        "prompt": "日本語 🦀 é",
        "max_tokens": 24,
        "temperature": 2.0,
        "seed": seed,
        "stop": stop,
    }
    whole = chat.completions.create(**request).choices[0]
    chunks = [chunk.choices[0] for chunk in chat.completions.create(**request, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert chunks[-1].finish_reason == whole.finish_reason
    assert stop not in whole.text
