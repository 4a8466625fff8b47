"""The NumPy semantics give what transformers recorded for the real models."""

from __future__ import annotations

import numpy as np
import pytest

from enginewright.errors import UsageError
from enginewright.model import compare, execute, run_step, trace
from enginewright.model.golden import DecoderComparison, EncoderComparison
from enginewright.model.reference import empty_caches, whole_step

SHORT = ["short", "one_token", "code"]


@pytest.fixture(scope="module")
def smollm2_answers(smollm2):
    by_name = {case.name: list(case.ids) for case in smollm2.golden.cases}
    sequences = [by_name[name] for name in SHORT]
    return execute(smollm2.graph, smollm2.checkpoint, sequences, weights=smollm2.weights)


def test_smollm2_agrees_with_transformers_on_every_position(smollm2, smollm2_answers) -> None:
    comparison = compare(smollm2.golden, smollm2_answers, cases=SHORT)
    assert isinstance(comparison, DecoderComparison)
    assert comparison.positions == 5 + 1 + 24
    assert comparison.max_logit_error < 2e-4
    assert comparison.top1_agreement == 1.0
    assert comparison.worst_disagreement == 0.0


def test_minilm_agrees_with_transformers_on_every_sentence(minilm) -> None:
    answers = execute(minilm.graph, minilm.checkpoint, minilm.golden.sequences)
    comparison = compare(minilm.golden, answers)
    assert isinstance(comparison, EncoderComparison)
    assert comparison.embeddings == 6
    assert comparison.min_cosine > 0.999999
    assert comparison.max_error < 2e-6


def test_a_wrong_engine_is_seen_in_the_comparison(smollm2, smollm2_answers) -> None:
    shifted = [np.roll(answer, 1, axis=1) for answer in smollm2_answers]
    comparison = compare(smollm2.golden, shifted, cases=SHORT)
    assert isinstance(comparison, DecoderComparison)
    assert comparison.max_logit_error > 1.0
    assert comparison.top1_agreement < 0.1
    assert comparison.worst_disagreement > 1.0


def test_outputs_that_cannot_be_compared_are_refused(smollm2, minilm, smollm2_answers) -> None:
    with pytest.raises(UsageError, match="2 outputs for 3 cases"):
        compare(smollm2.golden, smollm2_answers[:2], cases=SHORT)
    with pytest.raises(UsageError, match="expected 5 rows of logits"):
        compare(smollm2.golden, [smollm2_answers[0][:4]], cases=["short"])
    with pytest.raises(UsageError, match="expected 5 rows of logits"):
        compare(smollm2.golden, [smollm2_answers[0][:, :100]], cases=["short"])
    with pytest.raises(UsageError, match="not finite"):
        compare(smollm2.golden, [smollm2_answers[0] * np.float32(np.nan)], cases=["short"])
    with pytest.raises(UsageError, match="embedding is zero"):
        compare(minilm.golden, [np.zeros(384, np.float32)], cases=["short"])


def test_a_prompt_cut_into_chunks_gives_the_same_logits(smollm2, smollm2_answers) -> None:
    ids = next(list(case.ids) for case in smollm2.golden.cases if case.name == "short")
    whole = whole_step(smollm2.graph, [ids])
    caches = empty_caches(smollm2.graph, slots=1, capacity=len(ids))
    parts = []
    for rows in (slice(0, 3), slice(3, 5)):
        count = rows.stop - rows.start
        step = type(whole)(
            token_ids=whole.token_ids[rows],
            positions=whole.positions[rows],
            slots=whole.slots[rows],
            starts=np.array([0, count]),
            selected_rows=np.arange(count),
            caches=caches,
        )
        parts.append(run_step(smollm2.graph, smollm2.weights, step, keep=["logits"])["logits"])
    np.testing.assert_allclose(np.concatenate(parts), smollm2_answers[0], rtol=0, atol=1e-4)


def test_a_text_alone_and_with_others_gives_the_same_embedding(minilm) -> None:
    sequences = minilm.golden.sequences[:4]
    together = execute(minilm.graph, minilm.checkpoint, sequences)
    for sequence, answer in zip(sequences, together, strict=True):
        alone = execute(minilm.graph, minilm.checkpoint, [sequence], weights=minilm.weights)[0]
        np.testing.assert_allclose(alone, answer, rtol=0, atol=1e-6)


def test_a_trace_has_every_buffer_in_its_shape(minilm) -> None:
    step, buffers = trace(minilm.graph, minilm.checkpoint, [[101, 7592, 102], [101, 102]])
    assert buffers.keys() == minilm.graph.buffers.keys()
    for name, buffer in minilm.graph.buffers.items():
        rows = {"tokens": 5, "segments": 2}[buffer.rows]
        assert buffers[name].shape == (rows, buffer.width)
        assert buffers[name].dtype == np.float32
    assert len(step.segments) == 2


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([], "no sequences"),
        ([[101], []], "sequence 1 has 0 tokens"),
        ([[101] * 257], "sequence 0 has 257 tokens; expected 1 to 256"),
        ([[30522]], "outside the vocabulary of 30522"),
        ([[-1]], "outside the vocabulary"),
    ],
)
def test_sequences_that_cannot_be_run_are_refused(minilm, sequences, message) -> None:
    with pytest.raises(UsageError, match=message):
        execute(minilm.graph, minilm.checkpoint, sequences)
