"""Tactics over whole plans: the first big step, and crossing plans that were kept."""

from __future__ import annotations

from functools import partial

from enginewright.plan import Plan
from enginewright.plan.choices import complete, with_settings
from enginewright.plan.plan import MemoryPlan
from enginewright.variation.big_step import big_step
from enginewright.variation.idea import Context, Idea, Tactic


def _big_plan(context: Context) -> Plan:
    plan = big_step(
        context.naive,
        context.graph,
        context.library,
        allowed=context.allowed,
        rank=context.rank,
    )
    # Weights that stream through 4 KiB pages wait for the address cache: docs/lab-notes.md.
    settings: dict[str, object] = {"memory": MemoryPlan(huge_pages=True)}
    if context.graph.kind == "decoder" and "cache_f16" in context.allowed.numerics:
        # Half the memory of keys and values, and no slower where it was measured.
        settings["cache"] = plan.cache.model_copy(update={"dtype": "f16"})
    return with_settings(plan, context.graph, context.library, **settings)


def _big_step(context: Context) -> list[Idea]:
    """From the naive plan to fused, vectorised kernels everywhere."""
    remembered = ", led by what won before" if context.rank else ""
    return [
        Idea(
            make=partial(_big_plan, context),
            tactic="big_step",
            hypothesis=f"fused, vectorised kernels everywhere move each byte once{remembered}",
            predicted_effect=5.0,
        )
    ]


def _crossover(context: Context) -> list[Idea]:
    """One step of this plan exchanged for that of an earlier champion."""
    ideas = []
    for number, other in enumerate(reversed(context.kept)):
        if other.cache != context.plan.cache:
            continue
        for step, theirs in other.steps.items():
            if theirs == context.plan.steps[step]:
                continue
            steps = {**context.plan.steps, step: theirs}
            changed = context.plan.model_copy(update={"steps": steps})
            ideas.append(
                Idea(
                    make=partial(complete, changed, context.graph, context.library),
                    tactic="crossover",
                    hypothesis=f"the {step} of champion {len(context.kept) - number} was better",
                    predicted_effect=1.0,
                )
            )
    return ideas


TACTICS = (
    Tactic(name="big_step", propose=_big_step),
    Tactic(name="crossover", propose=_crossover),
)
