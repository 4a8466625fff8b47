"""What is wrong with a request is said in OpenAI's shape, and the server goes on."""

from __future__ import annotations

import json

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CHAT = "/v1/chat/completions"
COMPLETE = "/v1/completions"
HELLO = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"messages": "hi"}, "messages"),
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {}, "messages"),
        (CHAT, {"messages": HELLO, "temperature": "hot"}, "temperature"),
        (CHAT, {"messages": HELLO, "temperature": -1}, "temperature"),
        (CHAT, {"messages": HELLO, "top_p": 1.5}, "top_p"),
        (CHAT, {"messages": HELLO, "top_p": 0}, "top_p"),
        (CHAT, {"messages": HELLO, "top_k": -3}, "top_k"),
        (CHAT, {"messages": HELLO, "min_p": 2}, "min_p"),
        (CHAT, {"messages": HELLO, "max_tokens": 0}, "max_tokens"),
        (CHAT, {"messages": HELLO, "max_tokens": 1.5}, "max_tokens"),
        (CHAT, {"messages": HELLO, "n": 0}, "n"),
        (CHAT, {"messages": HELLO, "stop": [1]}, "stop"),
        (CHAT, {"messages": HELLO, "stream": "yes"}, "stream"),
        (CHAT, {"messages": HELLO, "top_logprobs": 2}, "top_logprobs"),
        (CHAT, {"messages": HELLO, "logit_bias": {"x": 1}}, "logit_bias"),
        (CHAT, {"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format"),
        (CHAT, {"messages": HELLO, "tools": [{"type": "function"}]}, "tools"),
        (COMPLETE, {}, "prompt"),
        (COMPLETE, {"prompt": 7}, "prompt"),
        (COMPLETE, {"prompt": [1, "two"]}, "prompt"),
        (COMPLETE, {"prompt": [49152]}, "prompt"),
        (COMPLETE, {"prompt": [-1]}, "prompt"),
        (COMPLETE, {"prompt": []}, "prompt"),
        (COMPLETE, {"prompt": "x", "logprobs": True}, "logprobs"),
        (COMPLETE, {"prompt": "x", "logprobs": -1}, "logprobs"),
        (COMPLETE, {"prompt": "x", "suffix": "y"}, "suffix"),
    ],
)
def test_a_wrong_field_is_named(chat_server, path, body, param) -> None:
    reply = chat_server.post(path, {"model": "smol", **body})
    assert reply.status == 400, reply.body
    error = reply.error
    assert error["param"] == param and error["type"] == "invalid_request_error", error


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model": "smol", "prompt": "\xff"}',
        b'{"model": "smol", "prompt": "\\ud800"}',
        b'{"model": "smol", "prompt": "x", "temperature": NaN}',
        b'{"model": "smol", "prompt": "x", "temperature": 1e999}',
        b'{"model": "smol", "prompt": "x", "max_tokens": 99999999999999999999999}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_request_is_refused(chat_server, body) -> None:
    reply = chat_server.post(COMPLETE, body)
    assert reply.status == 400
    assert reply.error["type"] == "invalid_request_error"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "messages", "prompt", "max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "stop",
    "stream", "stream_options", "seed", "logprobs", "top_logprobs", "logit_bias", "echo", "model",
    "return_token_ids", "ignore_eos", "user",
]  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(path=st.sampled_from([CHAT, COMPLETE]), field=st.sampled_from(FIELDS), value=JSON)
def test_no_value_of_a_field_breaks_the_server(chat_server, path, field, value) -> None:
    body = (
        {"model": "smol", "messages": HELLO} if path == CHAT else {"model": "smol", "prompt": "x"}
    )
    reply = chat_server.post(path, {**body, "max_tokens": 1, field: value})
    assert reply.status in (200, 400, 404), (reply.status, reply.body)
    if reply.status != 200:
        assert reply.error["message"]
    assert chat_server.request("GET", "/health").status == 200


def test_an_unknown_model_is_not_found(chat) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat.chat.completions.create(model="gpt-9", messages=HELLO)
    assert "smol" in caught.value.message


def test_models_lists_the_one_that_is_served(chat) -> None:
    models = chat.models.list().data
    assert [model.id for model in models] == ["smol"]
    assert chat.models.retrieve("smol").id == "smol"
    with pytest.raises(openai.NotFoundError):
        chat.models.retrieve("other")


def test_more_than_the_context_holds_is_refused(chat) -> None:
    for extra in ({"prompt": "word " * 600}, {"prompt": "x", "max_tokens": 512}):
        with pytest.raises(openai.BadRequestError) as caught:
            chat.completions.create(model="smol", **extra)
        assert caught.value.code == "context_length_exceeded"
        assert "512" in caught.value.message


def test_the_context_can_be_filled_to_the_end(chat) -> None:
    ids = [504] * 500
    answer = chat.completions.create(
        model="smol", prompt=ids, max_tokens=12, temperature=0, extra_body={"ignore_eos": True}
    )
    assert answer.usage.total_tokens == 512
    assert answer.choices[0].finish_reason == "length"


def test_a_huge_body_is_refused_by_size(chat_server) -> None:
    body = json.dumps({"model": "smol", "prompt": "x" * (16 << 20)}).encode()
    reply = chat_server.post(COMPLETE, body)
    assert reply.status == 413
    assert reply.error["type"] == "invalid_request_error"


def test_unknown_routes_and_methods_answer_in_json(chat_server) -> None:
    assert chat_server.request("GET", "/v2/nothing").status == 404
    assert chat_server.request("GET", "/v2/nothing").error["type"] == "invalid_request_error"
    reply = chat_server.request("GET", COMPLETE)
    assert reply.status == 405 and reply.error["message"]


def test_metrics_count_requests_and_tokens(chat_server) -> None:
    text = chat_server.request("GET", "/metrics").body.decode()
    assert "# TYPE" in text and 'le="+Inf"' in text
    for line in text.splitlines():
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0
