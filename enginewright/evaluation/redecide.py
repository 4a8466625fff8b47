"""A verdict again from its evidence alone: raw samples in, decision out, nothing run.

What the samples decide is worked out anew: which blocks count, every metric, the comparison, each
look, the guards, physics, the bounds on outputs. What ended a trial without samples (a process that
died, a request refused) is taken from the record, and said to be.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from enginewright.evaluation.audit import AuditReport, check_audit
from enginewright.evaluation.change_class import most_allowed
from enginewright.evaluation.closeness import LengthReport, check_closeness
from enginewright.evaluation.contention import Contention
from enginewright.evaluation.floors import Floor
from enginewright.evaluation.gates import check_client, check_physics
from enginewright.evaluation.hierarchical import Samples, block_samples, interval_of
from enginewright.evaluation.judge_settings import settings_from_json
from enginewright.evaluation.load_records import Answer
from enginewright.evaluation.metrics import pass_metrics, speedup_log
from enginewright.evaluation.passes import Pass, is_disturbed
from enginewright.evaluation.running_server import Memory
from enginewright.evaluation.statistics import decide, estimate
from enginewright.target import Target

TOLERANCE = 1e-6
"""Difference of a log ratio from the recorded one that is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redecision:
    """What the evidence says."""

    verdict: str
    """`kept`, `rejected: REASON` or `void: REASON`."""
    from_samples: bool
    """Whether samples decided it; else it rests on what was recorded of a process's end or of
    outputs that are not kept."""
    speedup: float | None
    """Candidate over champion, from the samples."""


def stored_verdict(evidence: dict[str, Any]) -> str:
    """The verdict as it was given, in the form of `Redecision.verdict`."""
    if evidence["verdict"] == "kept":
        return "kept"
    return f"{evidence['verdict']}: {evidence['reason']}"


def can_redecide(evidence: dict[str, Any]) -> bool:
    """Whether the evidence has all that is needed; older ones have not."""
    held = evidence.get("evidence")
    return isinstance(held, dict) and {"blocks", "settings", "target", "floors"} <= held.keys()


def redecide(evidence: dict[str, Any]) -> Redecision:
    """Decide a trial again.

    Raises: KeyError, ValueError, TypeError if the evidence is not whole (see `can_redecide`).
    """
    held = evidence["evidence"]
    frame = _Frame(held)
    arms = held["arms"]
    if arms["champion"]["fingerprint"] == arms["candidate"]["fingerprint"]:
        return Redecision(verdict="void: same_engine", from_samples=True, speedup=None)
    ratios: list[float] = []
    samples: list[Samples] = []
    by_scenario: list[dict[str, float]] = []
    metrics: list[dict[str, dict[str, float]]] = []
    contended = 0
    decision = "go_on"
    for block in held["blocks"]:
        passes = {name: frame.read_pass(name, seen) for name, seen in block["passes"].items()}
        if len(passes) < 2:
            break
        if any(is_disturbed(seen, frame.settings) for seen in passes.values()):
            contended += 1
            if contended > frame.settings.repeated_blocks:
                return Redecision(verdict="void: contended", from_samples=True, speedup=None)
            continue
        for seen in passes.values():
            if check_client(seen, limit=frame.settings.load_share_limit).void is not None:
                return Redecision(verdict="void: client_bound", from_samples=True, speedup=None)
            finding = check_physics(frame.bounds, seen, tolerance=frame.settings.physics_tolerance)
            if finding.void is not None:
                return Redecision(verdict="void: physics", from_samples=True, speedup=None)
        found = {
            name: pass_metrics(frame.target, seen, frame.floors) for name, seen in passes.items()
        }
        logs = frame.log_ratios(found)
        metrics.append(found)
        by_scenario.append(logs)
        ratios.append(sum(logs.values()) / len(logs))
        samples.append(block_samples(frame.target, passes, logs))
        decision = decide(
            ratios,
            frame.settings.looks,
            smallest_effect=math.log1p(frame.settings.smallest_effect),
            interval=interval_of(frame.settings.interval, samples),
        )
        if decision != "go_on":
            break
    speedup = math.exp(estimate(ratios).value) if ratios else None
    wrong = frame.audit_verdict(held.get("audit"))
    if wrong is not None:
        return Redecision(verdict=wrong, from_samples=True, speedup=speedup)
    match decision:
        case "not_better":
            return Redecision(verdict="rejected: slower", from_samples=True, speedup=speedup)
        case "better":
            verdict = "kept" if frame.guards_hold(by_scenario, metrics) else "rejected: guard"
            if verdict == "kept" and not frame.is_close(held.get("change")):
                verdict = "rejected: overclaimed"
            return Redecision(verdict=verdict, from_samples=True, speedup=speedup)
    # The samples had not decided yet when something else ended the trial.
    return Redecision(verdict=stored_verdict(evidence), from_samples=False, speedup=speedup)


class _Frame:
    """What the trial was decided by."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.target = Target.model_validate_json(json.dumps(held["target"]))
        self.settings = settings_from_json(held["settings"])
        self.floors = {name: Floor(**floor) for name, floor in held["floors"]["speed"].items()}
        self.bounds = {name: Floor(**floor) for name, floor in held["floors"]["physics"].items()}
        self.limits: dict[str, float] = held["limits"]

    def read_pass(self, arm: str, held: dict[str, Any]) -> Pass:
        """A pass from its record."""
        memory = held["memory"]
        return Pass(
            arm=arm,
            start_seconds=held["start_seconds"],
            memory=None if memory is None else Memory(**memory),
            answers=tuple(_answer(answer) for answer in held["answers"]),
            together=(),
            server_cpu_seconds=held["server_cpu_seconds"],
            contention=Contention(**held["contention"]),
            # Evidence of before this was measured has none.
            load_share=held.get("load_share", 0.0),
            stopped=None,
        )

    def log_ratios(self, found: dict[str, dict[str, float]]) -> dict[str, float]:
        """Of each scenario."""
        objective = self.target.workload.objective
        return {
            scenario.name: speedup_log(
                objective,
                found["champion"][f"{scenario.name}.{objective}"],
                found["candidate"][f"{scenario.name}.{objective}"],
            )
            for scenario in self.target.workload.scenario
            if f"{scenario.name}.{objective}" in found["candidate"]
        }

    def audit_verdict(self, report: dict[str, Any] | None) -> str | None:
        """`rejected: wrong` if the recorded regrets or cosines are beyond the bounds."""
        if report is None:
            return None
        finding = check_audit(AuditReport(**report), self.target.numerics)
        if finding.rejected is not None:
            return f"rejected: {finding.rejected}"
        return None if finding.void is None else f"void: {finding.void}"

    def is_close(self, change: dict[str, Any] | None) -> bool:
        """Whether the recorded distances are within the bounds of the claim. What needs the bytes
        themselves is not kept: a bit-exact claim is held to the bounds of its distances."""
        if change is None or change["claim"] is None or not change["lengths"]:
            return True
        reports = {
            int(length): LengthReport(**report) for length, report in change["lengths"].items()
        }
        claim = change["claim"]
        of_plan = most_allowed(self.target.numerics) if claim == "bit_exact" else claim
        return check_closeness(
            claim, of_plan, reports, self.target.numerics, is_same=True
        ).has_passed

    def guards_hold(
        self,
        by_scenario: list[dict[str, float]],
        metrics: list[dict[str, dict[str, float]]],
    ) -> bool:
        """No scenario much slower, no protected metric beyond its limit."""
        for name in by_scenario[0]:
            found = estimate([block[name] for block in by_scenario])
            is_slower = math.exp(found.value) < 1.0 - self.settings.guard_slowdown
            if is_slower and found.high < 0.0:
                return False
        for metric, limit in self.limits.items():
            worst = max(block["candidate"].get(metric, 0.0) for block in metrics)
            held = max(block["champion"].get(metric, 0.0) for block in metrics)
            if worst > limit >= held:
                return False
        return True


def _answer(held: dict[str, Any]) -> Answer:
    sent = held["sent"]
    ids = held["token_ids"]
    tokens = held["chunk_tokens"]
    return Answer(
        id=held["id"],
        scenario=held["scenario"],
        phase="timed",
        stream=held["stream"],
        sent=sent,
        ended=sent + held["seconds"],
        chunk_times=tuple(sent + seconds for seconds in held["chunk_seconds"]),
        chunk_tokens=tuple(tokens),
        counted_by=held["counted_by"],
        token_ids=None if ids is None else tuple(ids),
        text="",
        finish_reason=held["finish_reason"],
        prompt_tokens=None,
        completion_tokens=len(ids) if ids is not None else sum(tokens),
        claimed_tokens=None,
        embeddings=None,
        error_kind=None,
        error=None,
    )
