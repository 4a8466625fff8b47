"""What agents get to read of a run: facts, in few words. Names out of a checkpoint are quoted."""

from __future__ import annotations

from enginewright.plan import Plan
from enginewright.plan.choices import groups_by_signature
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.run_state import SEARCH
from enginewright.swarm.warm_start import hardware_key

MOST_TRIALS = 40
"""Trials that are told, the latest."""
MOST_LESSONS = 60
"""Lessons of earlier runs that are told."""


def told_brief(grounds: Grounds) -> str:
    """What is to be made faster, on what, and what is allowed."""
    subject, target = grounds.subject, grounds.subject.target
    champion = grounds.state.champion()
    dimensions = subject.graph.dimensions.model_dump()
    scenarios = [
        f"- {held.name}: {held.prompt_tokens} prompt tokens, {held.output_tokens} output tokens, "
        f"{held.streams} streams, {held.batch} texts a request"
        for held in target.workload.scenario
    ]
    return "\n".join(
        [
            f"Model: {subject.graph.name[:80]!r}, a {subject.graph.family} {subject.graph.kind}: "
            + ", ".join(f"{name} {value}" for name, value in dimensions.items() if value),
            f"Machine: {subject.machine.processor}, {subject.threads} threads; features: "
            + " ".join(sorted(_telling(subject.machine.features))),
            f"Improve: {target.workload.objective}, geometric mean over the scenarios:",
            *scenarios,
            f"Approximations allowed: {', '.join(sorted(subject.allowed.numerics)) or 'none'}",
            f"Champion: {champion.id} ({champion.tactic}); plan.json is its plan.",
            "Your files: change.json and kernels/NAME.rs with new names. README.md says how "
            "kernels are written.",
        ]
    )


def told_plan(plan: Plan, grounds: Grounds) -> str:
    """Kinds of groups by step."""
    graph = grounds.subject.graph
    lines = [
        f"threads {plan.threads}; pool {plan.pool.model_dump()}; "
        f"memory {plan.memory.model_dump()}; cache {plan.cache.model_dump()}"
    ]
    for step, held in plan.steps.items():
        lines.append(f"\n{step}: at most {held.rows} rows, {held.selected} selected")
        for groups in groups_by_signature(plan, graph, step).values():
            first = groups[0]
            kinds = " ".join(graph.op(op).kind for op in first.ops)
            parameters = "".join(f" {key}={value}" for key, value in first.parameters.items())
            lines.append(
                f"- {len(groups)}x `{kinds}` by {first.kernel}{parameters}; "
                f"ops of the first: {' '.join(first.ops)}"
            )
    return "\n".join(lines)


def told_lessons(grounds: Grounds) -> str:
    """What was tried here and what the judge said, and what won before on this hardware."""
    state = grounds.state
    trials = state.trials(SEARCH)[-MOST_TRIALS:]
    lines = ["Trials of this run, the latest last (hypotheses are opinions of their authors):"]
    for trial in trials:
        candidate = state.candidate(trial.candidate)
        lines.append(
            f"- {candidate.id} {candidate.tactic}, {candidate.predicted_effect:.2f}x expected: "
            f"{trial.reason or 'no verdict yet'} | {candidate.hypothesis[:300]!r}"
        )
    if not trials:
        lines.append("- none yet")
    turned_away = [
        f"- {event.details['agent']}: {event.details['reason']}"
        for event in state.archive.events(state.run)
        if event.kind == "turned_away"
    ]
    if turned_away:
        lines += ["Submissions that became no candidate:", *turned_away[-10:]]
    lines.append("What won in earlier runs on this hardware:")
    lines += _won(grounds) or ["- nothing yet"]
    return "\n".join(lines)


def _won(grounds: Grounds) -> list[str]:
    if grounds.memory is None:
        return []
    key = hardware_key(grounds.subject)
    return [
        f"- `{lesson.ops}` in {lesson.step}: {lesson.kernel} "
        f"{' '.join(f'{name}={value}' for name, value in lesson.parameters.items())}"
        f" ({lesson.confirmations} runs)"
        for lesson in grounds.memory.lessons()
        if lesson.hardware == key and lesson.kernel
    ][:MOST_LESSONS]


def _telling(features: frozenset[str]) -> set[str]:
    """Features that kernels may require, not all hundred of them."""
    beginnings = ("avx", "fma", "f16c", "amx", "bmi", "sse4", "asimd", "sve", "i8mm", "bf16")
    return {name for name in features if name.startswith(beginnings)}
