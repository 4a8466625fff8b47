"""Tactics that turn the settings of the whole engine: threads, pool, memory, cache, rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from enginewright.plan import Plan
from enginewright.plan.choices import complete, with_settings
from enginewright.plan.plan import CachePlan, MemoryPlan, PoolPlan
from enginewright.variation.idea import Context, Idea, Tactic

ROWS = (64, 128, 256, 512)
"""Prompt rows of a step that are tried."""
SPINS = (0, 50, 200, 1000, 5000)
"""Microseconds that an idle thread watches for work."""


Make = Callable[[], Plan]


def _idea(make: Make, tactic: str, hypothesis: str, predicted: float) -> Idea:
    return Idea(make=make, tactic=tactic, hypothesis=hypothesis, predicted_effect=predicted)


def _set(context: Context, **settings: object) -> Make:
    return partial(with_settings, context.plan, context.graph, context.library, **settings)


def _threads(context: Context) -> list[Idea]:
    return [
        _idea(
            _set(context, threads=count),
            "threads",
            f"{count} threads share the work and the memory's bandwidth better",
            1.02,
        )
        for count in range(context.cores, 0, -1)
        if count != context.plan.threads
    ]


def _spin(context: Context) -> list[Idea]:
    pool = context.plan.pool
    return [
        _idea(
            _set(context, pool=PoolPlan(spin_microseconds=spin, pin=pool.pin)),
            "pool_spin",
            f"threads that watch for {spin} us wake sooner, or leave the core to the server",
            1.01,
        )
        for spin in SPINS
        if spin != pool.spin_microseconds
    ]


def _pin(context: Context) -> list[Idea]:
    pool = context.plan.pool
    changed = PoolPlan(spin_microseconds=pool.spin_microseconds, pin=not pool.pin)
    why = "a pinned thread keeps its caches" if changed.pin else "the system moves threads better"
    return [_idea(_set(context, pool=changed), "pinning", why, 1.01)]


def _huge_pages(context: Context) -> list[Idea]:
    turned = not context.plan.memory.huge_pages
    why = (
        "pages of 2 MiB: fewer misses of the address cache while weights stream"
        if turned
        else "small pages save memory"
    )
    make = _set(context, memory=MemoryPlan(huge_pages=turned))
    return [_idea(make, "huge_pages", why, 1.05 if turned else 0.97)]


def _cache(context: Context, dtype: str, layout: str) -> Make:
    cache = context.plan.cache.model_dump() | {"dtype": dtype, "layout": layout}
    return _set(context, cache=CachePlan.model_validate(cache))


def _cache_layout(context: Context) -> list[Idea]:
    if context.graph.kind != "decoder":
        return []
    held = context.plan.cache
    other = "head_major" if held.layout == "position_major" else "position_major"
    why = f"{other} keys and values lie in the order in which attention reads them"
    return [_idea(_cache(context, held.dtype, other), "cache_layout", why, 1.01)]


def _cache_dtype(context: Context) -> list[Idea]:
    if context.graph.kind != "decoder":
        return []
    held = context.plan.cache
    other = "f16" if held.dtype == "f32" else "f32"
    why = (
        "half the bytes of keys and values"
        if other == "f16"
        else "no conversion of keys and values"
    )
    return [_idea(_cache(context, other, held.layout), "cache_dtype", why, 1.02)]


def _rows(context: Context) -> list[Idea]:
    step = context.plan.steps.get("prefill")
    if step is None:
        # An encoder's rows bound its longest text: they are not the search's to cut.
        return []
    ideas = []
    for rows in ROWS:
        if rows == step.rows or rows < step.selected:
            continue
        steps = {**context.plan.steps, "prefill": step.model_copy(update={"rows": rows})}
        changed = context.plan.model_copy(update={"steps": steps})
        make = partial(complete, changed, context.graph, context.library)
        why = f"prompts in chunks of {rows} rows: weights unpacked less often, or rows in cache"
        ideas.append(_idea(make, "prefill_rows", why, 1.02))
    return ideas


TACTICS = (
    Tactic(name="threads", propose=_threads),
    Tactic(name="pool_spin", propose=_spin),
    Tactic(name="pinning", propose=_pin),
    Tactic(name="huge_pages", propose=_huge_pages),
    Tactic(name="cache_layout", propose=_cache_layout),
    Tactic(name="cache_dtype", propose=_cache_dtype),
    Tactic(name="prefill_rows", propose=_rows),
)
