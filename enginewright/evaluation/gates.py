"""Checks that a pass must satisfy before its speed counts; one that checked nothing has failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from enginewright.evaluation.floors import Floor
from enginewright.evaluation.load_records import Answer
from enginewright.evaluation.metrics import decode_tokens_per_s
from enginewright.evaluation.passes import Pass
from enginewright.evaluation.verdict import RejectedReason, VoidReason
from enginewright.evaluation.workload import Workload
from enginewright.target import Scenario, Target

_BROKEN = "\ufffd"
"""What stands for bytes that are no whole character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one gate found."""

    gate: str
    """Name of the gate."""
    checked: int
    """Things that it looked at."""
    rejected: RejectedReason | None
    """Set if the engine is at fault."""
    void: VoidReason | None
    """Set if the measurement is at fault."""
    detail: str
    """One line with the values; empty if all is well."""

    @property
    def has_passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.rejected is None and self.void is None


def passed(gate: str, checked: int) -> Finding:
    """All is well, unless nothing was looked at."""
    if checked == 0:
        return Finding(
            gate=gate,
            checked=0,
            rejected=None,
            void="unchecked",
            detail=f"{gate}: nothing to check",
        )
    return Finding(gate=gate, checked=checked, rejected=None, void=None, detail="")


def rejected(gate: str, checked: int, reason: RejectedReason, detail: str) -> Finding:
    """The engine is at fault."""
    return Finding(gate=gate, checked=checked, rejected=reason, void=None, detail=detail)


def check_answers(
    target: Target, workload: Workload, seen: Pass, *, is_ours: bool = True
) -> Finding:
    """Every request answered in full: tokens and end as asked for, finite embeddings.

    Other servers than ours may count prompts in their own way, and need not tell why they end.
    """
    scenarios = {scenario.name: scenario for scenario in target.workload.scenario}
    expected = sum(
        len(stream) for wave in workload.waves if wave.phase == "timed" for stream in wave.streams
    )
    if len(seen.answers) != expected:
        detail = f"{len(seen.answers)} of {expected} requests are accounted for"
        return rejected("answers", len(seen.answers), "incomplete", detail)
    for checked, answer in enumerate(seen.answers):
        scenario = scenarios[answer.scenario]
        ids = workload.prompt_ids[answer.id]
        if scenario.output_tokens:
            expects = len(ids[0]) if is_ours else None
            problem = _generation_problem(scenario, answer, prompt_tokens=expects)
        else:
            problem = _embedding_problem(answer, texts=len(ids))
        if problem is not None:
            reason, detail = problem
            return rejected("answers", checked, reason, f"{answer.scenario}: {detail}")
    return passed("answers", len(seen.answers))


def _generation_problem(
    scenario: Scenario, answer: Answer, *, prompt_tokens: int | None
) -> tuple[RejectedReason, str] | None:
    wanted = scenario.output_tokens
    is_ours = prompt_tokens is not None
    if is_ours and answer.prompt_tokens not in (None, prompt_tokens):
        return "wrong", f"counts {answer.prompt_tokens} prompt tokens; there are {prompt_tokens}"
    if is_ours and answer.claimed_tokens not in (None, answer.completion_tokens):
        return "wrong", f"claims {answer.claimed_tokens} tokens; sent {answer.completion_tokens}"
    if answer.completion_tokens != wanted:
        return "incomplete", f"emitted {answer.completion_tokens} of {wanted} tokens"
    if is_ours and answer.finish_reason != "length":
        return "incomplete", f"finish reason is {answer.finish_reason!r}; expected 'length'"
    if not answer.chunk_times:
        return "incomplete", "no chunk has tokens"
    if wanted > 1 and len(answer.chunk_times) < 2:
        return "incomplete", f"sent {wanted} tokens in one piece instead of streaming them"
    return None


def _embedding_problem(answer: Answer, *, texts: int) -> tuple[RejectedReason, str] | None:
    held = answer.embeddings
    if held is None or len(held) != texts:
        return "incomplete", f"{len(held or ())} embeddings for {texts} texts"
    if not held[0] or len({len(values) for values in held}) != 1:
        return "wrong", "embeddings are empty or of different widths"
    if not all(math.isfinite(value) for values in held for value in values):
        return "wrong", "an embedding holds NaN or infinity"
    return None


def check_texts(decode: Callable[[Sequence[int]], str], seen: Pass) -> Finding:
    """What people read is what the ids say: the text of every answer that tells its ids.

    `decode` is the reference engine's tokenizer. Characters that a cut leaves broken are no
    difference.
    """
    checked = 0
    for answer in seen.answers:
        if answer.token_ids is None:
            continue
        checked += 1
        texts = (decode(answer.token_ids), answer.text)
        meant, sent = (text.replace(_BROKEN, "") for text in texts)
        if meant.strip() != sent.strip():
            place = _first_difference(list(map(ord, meant)), list(map(ord, sent)))
            shown = f"{sent[place : place + 20]!r} for {meant[place : place + 20]!r}"
            detail = f"{answer.scenario}: the text is not that of the ids: {shown}"
            return rejected("texts", checked, "wrong", detail)
    if checked == 0:
        # Embeddings, or another server than ours.
        return Finding(gate="texts", checked=0, rejected=None, void=None, detail="")
    return passed("texts", checked)


def check_physics(bounds: Mapping[str, Floor], seen: Pass, *, tolerance: float) -> Finding:
    """Nothing was faster than memory and arithmetic allow, by more than the tolerance.

    `bounds` are floors that grant the caches whole.
    """
    for checked, answer in enumerate(seen.answers):
        bound = bounds[answer.scenario]
        took = {"a request": (answer.ended - answer.sent, bound.request_seconds)}
        if bound.output_tokens:
            took["the first token"] = (answer.chunk_times[0] - answer.sent, bound.first_seconds)
            speed = decode_tokens_per_s(answer)
            # Other servers may answer in one piece; ours stream.
            if speed is not None or (answer.counted_by == "ids" and bound.output_tokens > 1):
                took["a token"] = (0.0 if speed is None else 1.0 / speed, bound.decode_seconds)
        for what, (seconds, least) in took.items():
            if seconds < tolerance * least:
                return Finding(
                    gate="physics",
                    checked=checked,
                    rejected=None,
                    void="physics",
                    detail=f"{seen.arm}: {answer.scenario}: {what} took {1e3 * seconds:.3g} ms; "
                    f"this machine needs {1e3 * least:.3g} ms at least",
                )
    return passed("physics", len(seen.answers))


def check_client(seen: Pass, *, limit: float) -> Finding:
    """The load generator had time to spare: else it, and not the engine, was timed."""
    if not seen.load_share <= limit:
        return Finding(
            gate="client",
            checked=len(seen.answers),
            rejected=None,
            void="client_bound",
            detail=f"{seen.arm}: the load generator was busy for {seen.load_share:.0%} of the "
            f"time; at most {limit:.0%} leaves it free to stamp what comes",
        )
    return passed("client", len(seen.answers))


def check_together(seen: Pass) -> Finding:
    """Requests sent again all at once gave the same as alone: the same ids, the same bytes."""
    alone = {answer.id: answer for answer in seen.answers}
    checked = 0
    for answer in seen.together:
        first = alone.get(answer.id)
        if first is None:
            continue
        checked += 1
        if first.token_ids != answer.token_ids:
            place = _first_difference(first.token_ids or (), answer.token_ids or ())
            detail = f"{first.scenario}: among others, token {place} differs from that alone"
            return rejected("together", checked, "inconsistent", detail)
        if first.embeddings != answer.embeddings:
            detail = f"{first.scenario}: among others, an embedding differs from that alone"
            return rejected("together", checked, "inconsistent", detail)
    return passed("together", checked)


def _first_difference(first: Sequence[int], second: Sequence[int]) -> int:
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))
