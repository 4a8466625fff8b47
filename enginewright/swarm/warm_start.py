"""What a confirmed champion teaches, and the first plan that lessons make."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginewright.errors import PlanError
from enginewright.model import Graph
from enginewright.plan import (
    Choice,
    MemoryPlan,
    Plan,
    PoolPlan,
    candidates_for,
    check_plan,
    group_signature,
    regroup,
)
from enginewright.plan.choices import CACHE_NUMERICS, signature_of, with_settings
from enginewright.plan.contracts import StepName
from enginewright.retention.memory import Lesson, Memory
from enginewright.swarm.run import Run
from enginewright.swarm.workbench import Subject

_LONGEST = 8
"""Most ops of a group that is looked up."""


def hardware_key(subject: Subject) -> str:
    """What lessons hold for: the processor and its features, not its load or its kernel's
    version."""
    held = [subject.machine.processor, sorted(subject.machine.features), subject.threads]
    return hashlib.sha256(json.dumps(held).encode()).hexdigest()[:32]


def lessons_of(run: Run, speedup: Mapping[str, float]) -> list[Lesson]:
    """What the run's champion teaches: the kernel and parameters of each kind of group, and the
    settings of the plan. Nothing if the naive engine is still champion.

    `speedup`: `value`, `low` and `high` of the confirmed champion over the naive engine.
    """
    champion = run.state.champion()
    if champion.parent is None:
        return []
    graph, plan = run.subject.graph, run.state.plan(champion)
    confirmed = [trial for trial in run.state.trials("confirm") if trial.candidate == champion.id]
    evidence = confirmed[-1].evidence if confirmed and confirmed[-1].evidence else ""

    def lesson(signature: str, ops: str, step: str, kernel: str, chosen: dict[str, Any]) -> Lesson:
        return Lesson(
            signature=signature, hardware=hardware_key(run.subject), ops=ops, step=step,
            kernel=kernel, parameters=chosen, speedup=speedup["value"],
            speedup_low=speedup["low"], speedup_high=speedup["high"], run=run.state.run,
            evidence=evidence,
        )  # fmt: skip

    found = {
        signature_of(plan, graph, step, group): (step, group)
        for step, held in plan.steps.items()
        for group in held.groups
    }
    lessons = [
        lesson(
            signature,
            " ".join(graph.op(op).kind for op in group.ops),
            step,
            group.kernel,
            dict(group.parameters),
        )
        for signature, (step, group) in found.items()
    ]
    return [*lessons, lesson(_settings_key(graph), graph.kind, "", "", _settings(plan))]


def warm_plan(naive: Plan, subject: Subject, memory: Memory) -> Plan | None:
    """The plan that memory proposes: its settings, what won for each kind of group it knows, and
    the
    fast kernels of a big step for the others. None if memory knows nothing of this model's
    groups on
    this hardware, or only what is no longer legal."""
    graph, library, allowed = subject.graph, subject.library, subject.allowed
    hardware = hardware_key(subject)
    known = {held.signature: held for held in memory.lessons() if held.hardware == hardware}
    plan = _with_settings(naive, subject, known.get(_settings_key(graph)))
    recalled = 0
    for step in plan.steps:
        choices = _cover(plan, subject, step, known)
        recalled += sum(choice.is_recalled for choice in choices)
        if choices:
            held = [choice.choice for choice in choices]
            plan = regroup(plan, graph, library, step=step, choices=held)
    if recalled == 0:
        return None
    try:
        check_plan(plan, graph, library, allowed)
    except PlanError:
        # Lessons of another library: a cold start is sound, this is not.
        return None
    return plan


@dataclass(frozen=True, slots=True)
class _Chosen:
    choice: Choice
    is_recalled: bool


def _cover(plan: Plan, subject: Subject, step: StepName, known: dict[str, Lesson]) -> list[_Chosen]:
    """From the first op on: the longest run that memory knows, else the longest with a fast
    kernel."""
    ops = subject.graph.ops
    chosen: list[_Chosen] = []
    first = 0
    while first < len(ops):
        windows = [
            tuple(op.id for op in ops[first : first + length])
            for length in range(min(_LONGEST, len(ops) - first), 0, -1)
        ]
        found = next(
            (_Chosen(choice, True) for ids in windows
             if (choice := _recalled(plan, subject, step, ids, known)) is not None),
            None,
        ) or next(
            (_Chosen(choice, False) for ids in windows
             if (choice := _fast(plan, subject, step, ids)) is not None),
            None,
        )  # fmt: skip
        if found is not None:
            chosen.append(found)
        first += len(found.choice.ops) if found is not None else 1
    return chosen


def _recalled(
    plan: Plan, subject: Subject, step: StepName, ids: tuple[str, ...], known: dict[str, Lesson]
) -> Choice | None:
    graph, library = subject.graph, subject.library
    ops = [graph.op(op_id) for op_id in ids]
    lesson = known.get(group_signature(graph, ops, step, plan.steps[step], cache=plan.cache))
    if lesson is None or lesson.kernel not in library:
        return None
    contract = library.named(lesson.kernel).contract
    parameters = {
        name: value
        for name, value in lesson.parameters.items()
        if name in contract.parameters and value in contract.parameters[name].values
    }
    choice = Choice(ops=ids, kernel=lesson.kernel, parameters=parameters)
    is_legal = any(
        held.kernel == choice.kernel
        for held in candidates_for(
            plan, graph, library, step=step, ops=ids, allowed=subject.allowed
        )
    )
    return choice if is_legal else None


def _fast(plan: Plan, subject: Subject, step: StepName, ids: tuple[str, ...]) -> Choice | None:
    found = [
        choice
        for choice in candidates_for(
            plan, subject.graph, subject.library, step=step, ops=ids, allowed=subject.allowed
        )
        if not choice.kernel.startswith("naive_")
    ]
    named = subject.library.named
    return max(
        found,
        key=lambda choice: (
            len(named(choice.kernel).contract.numerics),
            len(named(choice.kernel).contract.requires),
            choice.kernel,
        ),
        default=None,
    )


def _settings_key(graph: Graph) -> str:
    return f"settings/{graph.kind}"


def _settings(plan: Plan) -> dict[str, Any]:
    cache = plan.cache.model_dump(mode="json")
    return {
        "pool": plan.pool.model_dump(mode="json"),
        "memory": plan.memory.model_dump(mode="json"),
        # How much the cache holds follows from the workload, not from what won.
        "cache": {name: cache[name] for name in ("dtype", "layout")},
    }


def _with_settings(naive: Plan, subject: Subject, lesson: Lesson | None) -> Plan:
    if lesson is None:
        return naive
    held = lesson.parameters
    cache = dict(held["cache"])
    if CACHE_NUMERICS.get(cache["dtype"], "") not in subject.allowed.numerics | {""}:
        cache["dtype"] = naive.cache.dtype
    return with_settings(
        naive,
        subject.graph,
        subject.library,
        pool=PoolPlan.model_validate(held["pool"]),
        memory=MemoryPlan.model_validate(held["memory"]),
        cache=naive.cache.model_copy(update=cache),
    )
