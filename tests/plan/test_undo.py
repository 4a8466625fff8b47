"""A change taken out of a plan that others were built upon."""

from __future__ import annotations

import pytest

from enginewright.model import Graph
from enginewright.plan import Allowed, Library, Plan, candidates_for, naive_plan, regroup
from enginewright.plan.choices import with_settings
from enginewright.plan.undo import without_change


@pytest.fixture
def naive(llama: Graph, library: Library) -> Plan:
    return naive_plan(llama, library, 1)


def spun(plan: Plan, llama: Graph, library: Library, microseconds: int) -> Plan:
    pool = plan.pool.model_copy(update={"spin_microseconds": microseconds})
    return with_settings(plan, llama, library, pool=pool)


def fused(plan: Plan, llama: Graph, library: Library, layer: int) -> Plan:
    """Gate, up and their product in one group."""
    ops = [op.id for op in llama.ops]
    last = [place for place, op in enumerate(llama.ops) if op.kind == "silu_mul"][layer]
    allowed = Allowed(features=frozenset({"avx2", "fma", "f16c"}), numerics=frozenset())
    for first in (last - 3, last - 2, last - 1):
        found = [
            choice
            for choice in candidates_for(
                plan, llama, library, step="decode", ops=ops[first : last + 1], allowed=allowed
            )
            if not choice.kernel.startswith("naive_")
        ]
        if found:
            return regroup(plan, llama, library, step="decode", choices=found[:1])
    raise AssertionError(f"nothing fuses up to {ops[last]}")


def test_the_last_change_taken_out_is_the_plan_before(
    naive: Plan, llama: Graph, library: Library
) -> None:
    after = fused(naive, llama, library, 0)
    assert without_change(after, naive, after, llama, library) == naive


def test_an_earlier_change_is_taken_out_and_later_ones_stay(
    naive: Plan, llama: Graph, library: Library
) -> None:
    first = fused(naive, llama, library, 0)
    second = spun(first, llama, library, 77)
    third = fused(second, llama, library, 1)
    without = without_change(third, naive, first, llama, library)
    assert without == fused(spun(naive, llama, library, 77), llama, library, 1)
    without = without_change(third, first, second, llama, library)
    assert without == fused(first, llama, library, 1)


def test_a_change_that_a_later_one_overwrote_cannot_be_taken_out(
    naive: Plan, llama: Graph, library: Library
) -> None:
    first = spun(naive, llama, library, 77)
    second = spun(first, llama, library, 99)
    assert without_change(second, naive, first, llama, library) is None
