"""Tactics that give a kind of group another kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from enginewright.plan import Choice
from enginewright.plan.choices import change_alike, groups_by_signature
from enginewright.plan.contracts import StepName
from enginewright.plan.plan import Group, Plan
from enginewright.variation.idea import Context, Idea, Tactic


def _others(context: Context, step: StepName, group: Group) -> list[Choice]:
    """What is worth a trial: plain kernels are not, and those in plain Rust only stand in where the
    processor has no others, which the big step finds."""
    return [
        choice
        for choice in context.choices(step, group.ops)
        if choice.kernel != group.kernel
        and not choice.kernel.startswith("naive_")
        and not choice.kernel.endswith("_portable")
    ]


def _with_kernel(context: Context, step: StepName, signature: str, kernel: str) -> Plan:
    defaults = context.library.named(kernel).defaults()

    def change(group: Group) -> Group:
        return group.model_copy(update={"kernel": kernel, "parameters": defaults})

    return change_alike(
        context.plan,
        context.graph,
        context.library,
        step=step,
        signature=signature,
        change=change,
    )


def _swap(context: Context) -> list[Idea]:
    """Another kernel for one kind of group."""
    ideas = []
    for step in context.plan.steps:
        alike = groups_by_signature(context.plan, context.graph, step)
        for signature, groups in alike.items():
            for choice in _others(context, step, groups[0]):
                kinds = " ".join(context.graph.op(op_id).kind for op_id in groups[0].ops)
                ideas.append(
                    Idea(
                        make=partial(_with_kernel, context, step, signature, choice.kernel),
                        tactic="swap_kernel",
                        hypothesis=(
                            f"{choice.kernel} suits `{kinds}` better than {groups[0].kernel} "
                            f"({step}, {len(groups)} places)"
                        ),
                        predicted_effect=1.01,
                    )
                )
    return ideas


def _renamed(context: Context, rename: Callable[[str], str]) -> list[tuple[StepName, list[Choice]]]:
    """Groups whose kernel goes by another name where the other one exists and is legal."""
    found = []
    for step, held in context.plan.steps.items():
        choices = [
            choice
            for group in held.groups
            if (name := rename(group.kernel)) != group.kernel
            for choice in _others(context, step, group)
            if choice.kernel == name
        ]
        if choices:
            found.append((step, choices))
    return found


def _everywhere(context: Context, renamed: list[tuple[StepName, list[Choice]]]) -> Plan:
    changed = context
    for step, choices in renamed:
        changed = replace(changed, plan=changed.regrouped(step, choices))
    return changed.plan


def _swap_everywhere(
    context: Context, tactic: str, ways: tuple[tuple[Callable[[str], str], str, float], ...]
) -> list[Idea]:
    ideas = []
    for rename, why, predicted in ways:
        if renamed := _renamed(context, rename):
            made = partial(_everywhere, context, renamed)
            ideas.append(Idea(make=made, tactic=tactic, hypothesis=why, predicted_effect=predicted))
    return ideas


def _simd_tier(context: Context) -> list[Idea]:
    """Wider or narrower vectors everywhere."""
    return _swap_everywhere(
        context,
        "simd_tier",
        (
            (
                lambda name: name.replace("_avx2", "_avx512"),
                "vectors of 512 bits halve the instructions",
                1.2,
            ),
            (
                lambda name: name.replace("_avx512", "_avx2"),
                "vectors of 256 bits keep the clock higher",
                0.9,
            ),
        ),
    )


def _activations(context: Context) -> list[Idea]:
    """Activations in front of quantised matrices in 8 bits, or in float32."""
    return _swap_everywhere(
        context,
        "activation_quantisation",
        (
            (
                lambda name: re.sub(r"^(projections_.+)_float(_\w+)$", r"\1\2", name),
                "activations in 8 bits: integer products do four multiplications a lane",
                1.3,
            ),
            (
                lambda name: re.sub(
                    r"^(projections_(?!.*_float).+)(_avx\w+)$", r"\1_float\2", name
                ),
                "float activations save the rounding where a step waits for memory anyway",
                0.8,
            ),
        ),
    )


def _shared_embedding(context: Context) -> list[Idea]:
    """Embed out of the packed copy that a tied head has."""
    ideas = []
    for step in context.plan.steps:
        group = context.plan.steps[step].groups[0]
        if context.graph.op(group.ops[0]).kind != "embed":
            continue
        for choice in _others(context, step, group):
            if context.library.named(choice.kernel).contract.layout != "stored":
                ideas.append(
                    Idea(
                        make=partial(context.regrouped, step, [choice]),
                        tactic="shared_embedding",
                        hypothesis=f"a tied table is in memory once ({step})",
                        predicted_effect=1.0,
                    )
                )
    return ideas


TACTICS = (
    Tactic(name="swap_kernel", propose=_swap),
    Tactic(name="simd_tier", propose=_simd_tier),
    Tactic(name="activation_quantisation", propose=_activations),
    Tactic(name="shared_embedding", propose=_shared_embedding),
)
