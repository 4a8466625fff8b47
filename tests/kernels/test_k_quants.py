"""Q4_K and Q6_K end to end: every bit of a block is read as the `gguf` package reads it, one group
may hold both types, and a whole model that mixes them answers like its dequantised weights."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest
from synthetic_graphs import HIDDEN, VOCABULARY, Form, decoder

from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.evaluation.kernel_cases import random_weight
from enginewright.evaluation.kernel_check_expected import quantised
from enginewright.evaluation.kernel_object import CallRecord, Guarded, KernelObject, StepRecord
from enginewright.evaluation.run_sequences import run_sequences
from enginewright.kernel_source import processor_features
from enginewright.model import Checkpoint, Graph, build_graph, execute, read_checkpoint
from enginewright.model.dtypes import SUPPORTED
from enginewright.model.ops import OPS
from enginewright.plan import (
    Allowed,
    Capacity,
    Choice,
    Library,
    Plan,
    naive_plan,
    regroup,
    write_candidate,
)
from enginewright.plan.choices import with_settings
from enginewright.settings import load_settings
from enginewright.variation import big_step

CAPACITY = Capacity(prefill_rows=64, prefill_selected=64, context=64, slots=2)
SEQUENCE = [(7919 * (place + 1)) % VOCABULARY for place in range(40)]
MOST_EXACT_ERROR = 1e-4
"""Of the answer's largest value: float32 in another order."""
MOST_HALF_ERROR = 5e-3
"""The same, with a cache in half precision."""
MOST_ROUNDED_ERROR = 2e-2
"""The same, with activations in 8 bits, against semantics that round too: one value on the other
side of a rounding edge moves a row."""
MOST_PRICES = 2.0
"""How often the price of rounding, as the semantics pay it, may be paid when a cache in half
precision moves values over rounding edges."""


def hostile_blocks(dtype: str, count: int) -> np.ndarray:
    """Stored blocks with every byte random; scales and minima are finite halves of any sign and
    size, subnormal ones among them. The first blocks are all zeros and all ones but for them."""
    rng = np.random.default_rng(5)
    stored = SUPPORTED[dtype]
    blocks = rng.integers(0, 256, (count, stored.block_bytes), dtype=np.uint8)
    blocks[0], blocks[1] = 0, 255
    for at in {"q4_k": (0, 2), "q6_k": (208,)}[dtype]:
        halves = rng.integers(0, 1 << 16, count).astype(np.uint16)
        # No exponent of ones: neither infinite nor NaN.
        halves[halves & 0x7C00 == 0x7C00] ^= 0x4000
        blocks[:, at : at + 2] = halves[:, None].view(np.uint8)
    return blocks


def embedded(object_path: Path, layout: str, table: np.ndarray) -> np.ndarray:
    """Every row of a stored table, as an `embed` kernel gives it."""
    kernel = KernelObject.load(object_path)
    rows = np.arange(VOCABULARY, dtype=np.uint32)
    starts = np.array([0, VOCABULARY], np.uint32)
    packed = kernel.pack(0, Guarded.holding(table), layout)
    output = Guarded(VOCABULARY * HIDDEN * 4, fill=0xFF)
    scratch = kernel.scratch(VOCABULARY, 1, fill=0xFF)
    ticket = np.zeros(16, np.uint32)
    step = StepRecord(
        rows=VOCABULARY,
        segments=1,
        selected=0,
        token_ids=rows.ctypes.data,
        positions=rows.ctypes.data,
        slots=rows.ctypes.data,
        starts=starts.ctypes.data,
        selected_rows=rows.ctypes.data,
    )
    call = CallRecord(
        step=ctypes.pointer(step), threads=1, scratch=scratch.address, ticket=ticket.ctypes.data
    )
    call.outputs[0], call.weights[0] = output.address, packed.address
    kernel.run(call, ticket, concurrent=False)
    return output.floats(VOCABULARY, HIDDEN).copy()


@pytest.mark.parametrize("kernel", ["naive_embed", "embed_k_quants_packed"])
@pytest.mark.parametrize("dtype", ["q4_k", "q6_k"])
def test_weights_are_those_of_the_gguf_package_to_the_bit(dtype, kernel, workshop, library):
    graph = decoder(Form(dtype=dtype))
    plan = naive_plan(graph, library, 1, capacity=CAPACITY)
    choice = Choice(ops=("embed",), kernel=kernel)
    plan = regroup(plan, graph, library, step="prefill", choices=[choice])
    group = plan.steps["prefill"].groups[0]
    table = hostile_blocks(dtype, VOCABULARY * HIDDEN // 256)
    with np.errstate(invalid="ignore"):
        expected = gguf.quants.dequantize(table.reshape(VOCABULARY, -1), SUPPORTED[dtype].gguf_type)
    got = embedded(workshop.compiled(library, group), group.layouts[0], table.reshape(-1))
    np.testing.assert_array_equal(got, expected)


def write_model(path: Path) -> Path:
    """A random llama as llama.cpp's Q4_K_M mixes types: the values and the way down of the first
    layer as Q6_K, and so the table, which is the head too."""
    rng = np.random.default_rng(11)
    kv_width, feed_forward = HIDDEN // 2, 2 * HIDDEN
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["<|end|>", "a", "b", "ab"])
    writer.add_token_types([3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)

    def add(name: str, dtype: str, *shape: int) -> None:
        described = {"dtype": dtype, "shape": shape}
        raw = random_weight(rng, described, is_scale=len(shape) == 1)
        if dtype == "f32":
            writer.add_tensor(name, raw.view(np.float32).reshape(shape))
        else:
            rows = raw.reshape(shape[0], -1)
            writer.add_tensor(name, rows, raw_dtype=SUPPORTED[dtype].gguf_type)

    add("token_embd.weight", "q6_k", VOCABULARY, HIDDEN)
    add("output_norm.weight", "f32", HIDDEN)
    for layer in range(2):
        better = "q6_k" if layer == 0 else "q4_k"
        add(f"blk.{layer}.attn_norm.weight", "f32", HIDDEN)
        add(f"blk.{layer}.attn_q.weight", "q4_k", HIDDEN, HIDDEN)
        add(f"blk.{layer}.attn_k.weight", "q4_k", kv_width, HIDDEN)
        add(f"blk.{layer}.attn_v.weight", better, kv_width, HIDDEN)
        add(f"blk.{layer}.attn_output.weight", "q4_k", HIDDEN, HIDDEN)
        add(f"blk.{layer}.ffn_norm.weight", "f32", HIDDEN)
        add(f"blk.{layer}.ffn_gate.weight", "q4_k", feed_forward, HIDDEN)
        add(f"blk.{layer}.ffn_up.weight", "q4_k", feed_forward, HIDDEN)
        add(f"blk.{layer}.ffn_down.weight", better, HIDDEN, feed_forward)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@dataclass(frozen=True)
class Mixed:
    """The model and what its dequantised weights answer to the sequence."""

    checkpoint: Checkpoint
    graph: Graph
    meant: np.ndarray
    """In float32."""
    rounded: np.ndarray
    """With the inputs of matrices in 8 bits."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Mixed:
    checkpoint = read_checkpoint(write_model(tmp_path_factory.mktemp("model") / "mixed.gguf"))
    graph = build_graph(checkpoint)
    (meant,) = execute(graph, checkpoint, [SEQUENCE])
    linear = OPS["linear"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            OPS,
            "linear",
            lambda op, inputs, weights, step: linear(op, [quantised(inputs[0])], weights, step),
        )
        (rounded,) = execute(graph, checkpoint, [SEQUENCE])
    return Mixed(checkpoint, graph, meant, rounded)


def fast_plan(graph: Graph, library: Library, numerics: set[str], *, features: set[str]) -> Plan:
    plan = naive_plan(graph, library, 2, capacity=CAPACITY)
    allowed = Allowed(features=frozenset(features), numerics=frozenset(numerics))
    plan = big_step(plan, graph, library, allowed=allowed)
    if "cache_f16" in numerics:
        cache = plan.cache.model_copy(update={"dtype": "f16"})
        plan = with_settings(plan, graph, library, cache=cache)
    return plan


def error(got: np.ndarray, meant: np.ndarray) -> float:
    """Of the largest value."""
    return float(np.abs(got - meant).max() / np.abs(meant).max())


def answer(plan: Plan, mixed: Mixed, library: Library, folder: Path, *, step: str) -> np.ndarray:
    """What the engine of a plan answers to the sequence."""
    (folder / "graph.json").write_text(mixed.graph.to_json())
    (folder / "tokenizer.json").write_text("{}")
    write_candidate(plan, library, folder, folder / "candidate")
    features = processor_features()
    built = build_engine(folder / "candidate", folder / "engine", folder / "objects", features)
    assert not isinstance(built, NotBuilt), built
    (got,) = run_sequences(
        load_settings().engine_program,
        folder / "engine",
        mixed.checkpoint.folder,
        [SEQUENCE],
        flags=("--step", step),
    )
    return np.asarray(got)


def test_a_mixed_model_is_planned_in_whole_groups(mixed, library):
    fast = {"avx2", "fma", "f16c"}
    for features, tier in ((fast, "avx2"), (set[str](), "portable")):
        plan = fast_plan(mixed.graph, library, {"activations_q8"}, features=features)
        for step in plan.steps.values():
            products = [group for group in step.groups if "linear" in group.constants["EW_OPS"]]
            assert {group.kernel for group in products} == {f"projections_k_quants_{tier}"}
            # Per layer: norm to cache, output with residual, gate and up, down with residual.
            assert len(products) == 2 * 4 + 1
            first = products[0]
            assert first.layouts[1:4] == ("q4_k.x16", "q4_k.x16", "q6_k.x16")
            assert step.groups[0].kernel == "embed_k_quants_packed"


@pytest.mark.parametrize("step", ["prefill", "decode"])
@pytest.mark.parametrize("numerics", [(), ("cache_f16",), ("activations_q8",)], ids="-".join)
def test_a_mixed_model_answers_like_its_dequantised_weights(
    numerics, step, mixed, library, tmp_path
):
    plan = fast_plan(mixed.graph, library, set(numerics), features=set(processor_features()))
    got = answer(plan, mixed, library, tmp_path, step=step)
    if "activations_q8" in numerics:
        assert error(got, mixed.rounded) <= MOST_ROUNDED_ERROR
    else:
        most = MOST_HALF_ERROR if "cache_f16" in numerics else MOST_EXACT_ERROR
        assert error(got, mixed.meant) <= most


def test_both_approximations_together_cost_little_more_than_rounding(mixed, library, tmp_path):
    numerics = {"activations_q8", "cache_f16"}
    plan = fast_plan(mixed.graph, library, numerics, features=set(processor_features()))
    got = answer(plan, mixed, library, tmp_path, step="decode")
    assert error(got, mixed.meant) <= MOST_PRICES * error(mixed.rounded, mixed.meant)


def test_a_mixed_model_of_plain_kernels_answers_like_its_dequantised_weights(
    mixed, library, tmp_path
):
    plan = naive_plan(mixed.graph, library, 2, capacity=CAPACITY)
    got = answer(plan, mixed, library, tmp_path, step="prefill")
    assert error(got, mixed.meant) <= MOST_EXACT_ERROR
