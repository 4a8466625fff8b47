"""Every kernel of the library against the NumPy semantics, on groups of small graphs.

The graphs cover each stored type, pairing, window, form of GELU, pooling and cache. Kernels whose
instructions this machine lacks are skipped, and say so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import pytest
from synthetic_graphs import Form, decoder, encoder

from enginewright.errors import PlanError
from enginewright.evaluation.kernel_check import Checked, CheckResult
from enginewright.kernel_source import processor_features
from enginewright.model import Graph
from enginewright.model.op_table import OP_TABLE
from enginewright.plan import (
    CachePlan,
    Capacity,
    Choice,
    Group,
    Kernel,
    Plan,
    check_group,
    load_library,
    matching_windows,
    naive_plan,
    regroup,
)
from enginewright.plan.choices import with_settings
from enginewright.plan.contracts import StepName
from enginewright.settings import load_settings

LIBRARY = load_library(load_settings().kernels)
CAPACITY = Capacity(prefill_rows=20, prefill_selected=3, decode_rows=5, context=64, slots=5)
DTYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q6_k")
STEPS = ("prefill", "decode", "encode")
CACHES = (("f32", "position_major"), ("f16", "head_major"))
VARIANTS = (
    Form(
        pairing="adjacent",
        window=7,
        gelu="tanh",
        pool="first_pool",
        has_head_norms=True,
        is_hybrid=True,
    ),
    *(
        Form(dtype=dtype, has_biases=dtype == "f16", is_hybrid=dtype in ("f16", "bf16"))
        for dtype in DTYPES
    ),
    Form(dtype="q4_k", value_dtype="q6_k", has_biases=True),
)
"""The first differs from the second in all that is not a type."""


@dataclass(frozen=True)
class Subject:
    """One check: a group in its plan."""

    graph: Graph
    plan: Plan
    step: StepName
    group: Group


@cache
def graphs_of(form: Form) -> tuple[Graph, Graph]:
    return decoder(form), encoder(form)


def legal_group(graph: Graph, plan: Plan, step: StepName, choice: Choice) -> Subject | None:
    """The choice in its plan, or None where the kernel's contract forbids it."""
    plan = regroup(plan, graph, LIBRARY, step=step, choices=[choice])
    group = next(group for group in plan.steps[step].groups if group.ops == choice.ops)
    try:
        check_group(group, step, plan.steps[step], graph=graph, library=LIBRARY, cache=plan.cache)
    except PlanError:
        return None
    return Subject(graph=graph, plan=plan, step=step, group=group)


def traits_of(subject: Subject) -> frozenset[str]:
    """What a check of this group covers."""
    constants = subject.group.constants
    kinds = constants["EW_OPS"].split()
    found = {*kinds, subject.step}
    for number in range(len(kinds)):
        for name in ("DTYPE", "DTYPES", "PAIRING", "WINDOW", "FORM", "ROWS"):
            value = constants.get(f"EW_OP{number}_{name}")
            if value is not None:
                found.add(f"{name.lower()} {value.split()[0]}")
    matrices = {constants.get(f"EW_OP{number}_DTYPE") for number in range(len(kinds))} - {None}
    if len(matrices) > 1:
        found.add(f"dtypes {' with '.join(sorted(matrices))}")
    if "EW_CACHE_DTYPE" in constants:
        found.add(f"cache {constants['EW_CACHE_DTYPE']} {constants['EW_CACHE_LAYOUT']}")
    return frozenset(found)


@cache
def first_plan(graph_index: int, form: Form, cache_form: tuple[str, str]) -> Plan:
    graph = graphs_of(form)[graph_index]
    plan = naive_plan(graph, LIBRARY, 2, capacity=CAPACITY)
    dtype, layout = cache_form
    held = CachePlan(dtype=dtype, layout=layout, capacity=64, slots=5)
    return with_settings(plan, graph, LIBRARY, cache=held)


def legal_groups(kernel: Kernel) -> Iterator[Subject]:
    """Every group that the kernel may serve: long ones first, for they hold what short ones do."""
    stored = kernel.contract.matrices
    for number, form in enumerate(VARIANTS):
        if stored and form.dtype not in stored:
            continue
        for index, graph in enumerate(graphs_of(form)):
            windows = sorted(matching_windows(graph, kernel), key=len, reverse=True)
            for place, ops in enumerate(windows):
                steps = list(first_plan(index, form, CACHES[0]).steps)
                turn = (number + place) % len(steps)
                # Each step with another cache, then the reverse: few groups cover both.
                for first in range(len(CACHES)):
                    for at, step in enumerate(steps[turn:] + steps[:turn]):
                        plan = first_plan(index, form, CACHES[(first + at) % len(CACHES)])
                        choice = Choice(ops=ops, kernel=kernel.name)
                        subject = legal_group(graph, plan, step, choice)
                        if subject is not None:
                            yield subject


def family_of(name: str) -> str:
    """Kernels of one family differ in the type they read only; the rest of their code is shared."""
    types = "_q[0-9]_[0-9]|_k_quants"
    return re.sub(types, "", name) if name.startswith("projections_") else name


def subjects_of(names: list[str]) -> dict[str, list[Subject]]:
    """Groups by kernel that together have every trait of the kernels' legal groups. Siblings of a
    family each have their types, in steps by turns, and share out the other traits."""
    covered: set[tuple[str, str]] = set()
    found: dict[str, list[Subject]] = {name: [] for name in names}
    for name in names:
        for subject in legal_groups(LIBRARY[name]):
            traits = {
                (name if trait.startswith("dtype") else family_of(name), trait)
                for trait in traits_of(subject)
            }
            if traits - covered:
                covered |= traits
                found[name].append(subject)
    return found


@pytest.fixture(scope="session")
def results(request, workshop) -> Iterator[dict[str, list[tuple[Subject, Future[CheckResult]]]]]:
    """The checks of every kernel that is asked for, on all cores."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.originalname == "test_a_kernel_computes_what_its_groups_mean"
    }
    runnable = [name for name in sorted(wanted) if not missing_features(name)]
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        yield {
            name: [
                (
                    one,
                    pool.submit(workshop.check, LIBRARY, one.graph, one.plan, one.step, one.group),
                )
                for one in subjects
            ]
            for name, subjects in subjects_of(runnable).items()
        }
        pool.shutdown(cancel_futures=True)


def missing_features(name: str) -> list[str]:
    return sorted(set(LIBRARY[name].contract.requires) - processor_features())


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_a_kernel_computes_what_its_groups_mean(name, results):
    if missing_features(name):
        pytest.skip(f"NOT CHECKED: this processor lacks {', '.join(missing_features(name))}")
    checks = results[name]
    assert checks, f"no synthetic graph has a group for {name}"
    wrong = {
        f"{one.step} {' '.join(one.group.ops)} {one.group.constants}": result
        for one, result in ((one, future.result()) for one, future in checks)
        if not isinstance(result, Checked)
    }
    assert wrong == {}


def test_the_groups_cover_every_type_form_and_cache():
    naive = [name for name in LIBRARY if name.startswith("naive_")]
    covered = {
        trait
        for subjects in subjects_of(naive).values()
        for one in subjects
        for trait in traits_of(one)
    }
    assert {f"dtype {dtype}" for dtype in DTYPES} <= covered
    assert {f"dtypes {dtype}" for dtype in DTYPES} <= covered
    assert {f"cache {dtype} {layout}" for dtype, layout in CACHES} <= covered
    assert {"pairing half", "pairing adjacent", "window 0", "window 7"} <= covered
    assert {"form erf", "form tanh", "mean_pool", "first_pool", *STEPS} <= covered
    assert set(OP_TABLE) <= covered
