"""What emitted tokens do not show: a window that is too narrow, a scale a little off, a claim that
does not hold; with real engines of a tiny model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginewright.errors import EngineError
from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.evaluation.change_class import (
    CLAIM_FILE,
    ChangeClass,
    most_allowed,
    write_claim,
)
from enginewright.evaluation.closeness import (
    LengthReport,
    ReferenceAnswers,
    check_closeness,
    claimed_class,
    compare_lengths,
    is_same_to_the_byte,
)
from enginewright.kernel_source import processor_features
from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.plan import Allowed, Capacity, Plan, load_library, naive_plan, write_candidate
from enginewright.plan.choices import with_settings
from enginewright.settings import load_settings
from enginewright.target import Numerics
from enginewright.variation import big_step

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny/llama_untied_llama3"
LENGTHS = (12, 60)
NOTHING = Numerics()
HALF_CACHE = Numerics(allow=("cache_f16",))

Build = Callable[[str, Graph, Plan], Path]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return build_graph(read_checkpoint(str(TINY)))


@pytest.fixture(scope="module")
def plain(graph: Graph) -> Plan:
    capacity = Capacity(prefill_rows=64, prefill_selected=64, context=64, slots=2)
    return naive_plan(graph, load_library(load_settings().kernels), 1, capacity=capacity)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    home = tmp_path_factory.mktemp("closeness")

    def make(name: str, graph: Graph, plan: Plan) -> Path:
        inputs = home / f"{name}-inputs"
        inputs.mkdir()
        (inputs / "graph.json").write_text(graph.to_json())
        (inputs / "tokenizer.json").write_text("{}")
        library = load_library(load_settings().kernels)
        write_candidate(plan, library, inputs, home / f"{name}-candidate")
        built = build_engine(
            home / f"{name}-candidate", home / name, home / "objects", processor_features()
        )
        assert not isinstance(built, NotBuilt), built
        return home / name

    return make


@pytest.fixture(scope="module")
def answers(build: Build, graph: Graph, plain: Plan) -> ReferenceAnswers:
    rng = np.random.default_rng(7)
    return ReferenceAnswers(
        program=load_settings().engine_program, reference=build("reference", graph, plain),
        checkpoint=TINY, threads=1, sandbox=None, is_encoder=False,
        sequences={
            length: [rng.integers(0, 160, length).tolist() for _ in range(2)]
            for length in LENGTHS
        },
    )  # fmt: skip


def changed(graph: Graph, **attributes: Any) -> Graph:
    """The graph with other attributes of its attention."""
    described = json.loads(graph.to_json())
    for op in described["ops"]:
        if op["kind"] == "attention":
            op["attributes"] |= attributes
    return Graph.from_json(json.dumps(described))


def replanned(graph: Graph, plan: Plan) -> Plan:
    return naive_plan(
        graph, load_library(load_settings().kernels), 1,
        capacity=Capacity(prefill_rows=64, prefill_selected=64, context=64, slots=2),
    )  # fmt: skip


def judged(
    answers: ReferenceAnswers, engine: Path, numerics: Numerics, champion: Path | None = None
) -> str:
    """What the gate says of an engine folder; empty if it passes."""
    claim, refused = claimed_class(engine, numerics)
    if refused is not None:
        return refused.detail
    reports = compare_lengths(answers, engine, LENGTHS)
    of_plan: ChangeClass = "precision_changed" if numerics.allow else "reassociated"
    is_same = None
    if claim == "bit_exact":
        is_same = is_same_to_the_byte(answers, engine, champion or answers.reference, LENGTHS)
    return check_closeness(claim, of_plan, reports, numerics, is_same=is_same).detail


@pytest.fixture(scope="module")
def fast(build: Build, graph: Graph, plain: Plan) -> Path:
    allowed = Allowed(features=processor_features(), numerics=frozenset())
    library = load_library(load_settings().kernels)
    return build("fast", graph, big_step(plain, graph, library, allowed=allowed))


def test_sums_in_another_order_are_close_at_every_length(
    answers: ReferenceAnswers, fast: Path
) -> None:
    assert judged(answers, fast, NOTHING) == ""
    found = compare_lengths(answers, fast, LENGTHS)
    assert max(report.kl_nats for report in found.values()) < 1e-8
    assert answers.tokens_per_second is not None


def test_they_are_not_the_same_bytes(answers: ReferenceAnswers, fast: Path) -> None:
    write_claim(fast, "bit_exact")
    assert "answers other bytes than the champion" in judged(answers, fast, NOTHING)
    (fast / CLAIM_FILE).unlink()


def test_another_thread_count_is_the_same_to_the_byte(
    answers: ReferenceAnswers, build: Build, graph: Graph, plain: Plan
) -> None:
    library = load_library(load_settings().kernels)
    pool = plain.pool.model_copy(update={"spin_microseconds": 7})
    engine = build("spins", graph, with_settings(plain, graph, library, pool=pool))
    write_claim(engine, "bit_exact")
    assert judged(answers, engine, NOTHING) == ""


def test_a_window_shows_at_the_length_that_it_cuts(
    answers: ReferenceAnswers, build: Build, graph: Graph, plain: Plan
) -> None:
    narrow = changed(graph, window=24)
    engine = build("window", narrow, replanned(narrow, plain))
    assert compare_lengths(answers, engine, [12])[12].kl_nats < 1e-8
    detail = judged(answers, engine, NOTHING)
    assert detail.startswith("claims reassociated; at 60 tokens the divergence is")


def test_a_scale_that_is_a_little_off_shows(
    answers: ReferenceAnswers, build: Build, graph: Graph, plain: Plan
) -> None:
    scale = next(op.attributes["scale"] for op in graph.ops if op.kind == "attention")
    off = changed(graph, scale=scale * 1.1)
    engine = build("scale", off, replanned(off, plain))
    assert "the divergence is" in judged(answers, engine, NOTHING)


def test_half_precision_is_refused_where_the_target_does_not_allow_it(
    answers: ReferenceAnswers, build: Build, graph: Graph, plain: Plan
) -> None:
    library = load_library(load_settings().kernels)
    cache = plain.cache.model_copy(update={"dtype": "f16"})
    engine = build("half", graph, with_settings(plain, graph, library, cache=cache))
    assert judged(answers, engine, HALF_CACHE) == ""
    assert "the target allows reassociated at most" in judged(answers, engine, NOTHING)
    write_claim(engine, "reassociated")
    assert "claims reassociated, but its plan uses cache_f16" in judged(answers, engine, HALF_CACHE)
    write_claim(engine, "approximate")
    assert "the target allows precision_changed at most" in judged(answers, engine, HALF_CACHE)


def test_a_claim_that_is_no_class_is_refused(fast: Path, tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    shutil.copy(fast / "plan.json", engine)
    for text in ('{"change": "better"}', "[]", "{"):
        (engine / CLAIM_FILE).write_text(text)
        _, refused = claimed_class(engine, NOTHING)
        assert refused is not None and refused.rejected == "overclaimed", text


def test_an_engine_that_fails_is_an_error_not_a_distance(answers: ReferenceAnswers) -> None:
    with pytest.raises(EngineError, match="nowhere"):
        compare_lengths(answers, Path("/nowhere"), LENGTHS)


def test_nan_is_beyond_every_bound_and_nothing_compared_is_unchecked() -> None:
    nan = LengthReport(
        positions=9, kl_nats=float("nan"), kl_high_nats=float("nan"), top1_agreement=1.0,
        cosine=None,
    )  # fmt: skip
    found = check_closeness("reassociated", "reassociated", {9: nan}, NOTHING, is_same=None)
    assert found.rejected == "overclaimed"
    found = check_closeness("reassociated", "reassociated", {}, NOTHING, is_same=None)
    assert found.void == "unchecked"


def test_a_target_without_approximations_allows_reordering_only() -> None:
    assert most_allowed(NOTHING) == "reassociated"
    assert most_allowed(HALF_CACHE) == "precision_changed"
