"""A trial: champion and candidate in turn, in fresh processes, on the same fresh prompts, until it
is clear whether the candidate is faster, or what is wrong with it."""

from __future__ import annotations

import json
import math
import random
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from enginewright.errors import EngineError, InternalError
from enginewright.evaluation.audit import (
    AuditReport,
    Output,
    audit,
    check_audit,
    choose,
    outputs_of,
    report_json,
)
from enginewright.evaluation.change_class import ChangeClass, class_of_plan
from enginewright.evaluation.closeness import (
    LengthReport,
    ReferenceAnswers,
    check_closeness,
    claimed_class,
    compare_lengths,
    is_same_to_the_byte,
)
from enginewright.evaluation.engagement import check_engagement
from enginewright.evaluation.engine_process import sandbox_json
from enginewright.evaluation.evidence import block_json, frame_json
from enginewright.evaluation.floors import target_floors
from enginewright.evaluation.gates import (
    Finding,
    check_answers,
    check_client,
    check_physics,
    check_texts,
    check_together,
)
from enginewright.evaluation.hierarchical import Samples, block_samples, interval_of
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.load_generator import LoadGenerator
from enginewright.evaluation.metrics import pass_metrics, speedup_log
from enginewright.evaluation.oracle import Oracle
from enginewright.evaluation.passes import Arm, Pass, is_disturbed, rounds_for, run_pass
from enginewright.evaluation.prompts import PromptSource
from enginewright.evaluation.running_server import ServerFailed
from enginewright.evaluation.statistics import Interval, decide, estimate
from enginewright.evaluation.verdict import (
    Comparison,
    Kept,
    Rejected,
    RejectedReason,
    Verdict,
    Void,
    VoidReason,
)
from enginewright.evaluation.workload import Workload, draw_workload, together_wave
from enginewright.model import Graph
from enginewright.target import Machine, Target


@dataclass(frozen=True, kw_only=True)
class TrialJob:
    """What the judge is asked."""

    target: Target
    """Workload, numerics and hardware."""
    graph: Graph
    """The model, for its bytes and flops."""
    machine: Machine
    """What it runs on."""
    tokenizer: Path
    """tokenizer.json of the reference engine."""
    champion: Arm
    """The best so far."""
    candidate: Arm
    """The one on trial."""
    oracle: Oracle
    """The running reference engine."""
    work: Path
    """Folder for logs."""
    closeness: ReferenceAnswers | None = None
    """What the reference engine answers to texts of several lengths; None compares no
    distributions, as for engines that have no folder."""
    limits: dict[str, float] = field(default_factory=dict)
    """Protected metrics of the whole engine with the most allowed, as `peak_memory_mib`: a
    candidate that passes one is rejected unless the champion does so too."""
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    """The rules."""


def run_trial(job: TrialJob) -> Verdict:
    """Judge a candidate. Whatever it does ends in a verdict, never in an exception.

    Raises: TargetError if the tokenizer makes no text of a scenario's length.
    """
    return _Trial(job).run()


class _Stop(Exception):
    """The trial is over."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class _Block:
    workload: Workload
    champion: Pass
    candidate: Pass
    champion_metrics: dict[str, float]
    candidate_metrics: dict[str, float]
    by_scenario: dict[str, float]
    samples: Samples

    @property
    def log_ratio(self) -> float:
        return sum(self.by_scenario.values()) / len(self.by_scenario)


class _Trial:
    def __init__(self, job: TrialJob) -> None:
        self._job = job
        # Drawn now: the candidate was built before.
        self._seed = secrets.randbits(63)
        self._prompts = PromptSource(job.tokenizer, self._seed)
        self._lot = random.Random(self._seed ^ 1)
        self._floors = target_floors(job.graph, job.target, job.machine)
        self._bounds = target_floors(
            job.graph,
            job.target,
            job.machine,
            cached_bytes=job.machine.last_level_cache_bytes,
        )
        self._rounds = 1
        self._blocks: list[_Block] = []
        self._tried: list[dict[str, Any]] = []
        self._findings: dict[str, Finding] = {}
        self._report: AuditReport | None = None
        self._claim: ChangeClass | None = None
        self._lengths: dict[int, LengthReport] = {}

    def run(self) -> Verdict:
        job = self._job
        try:
            if job.champion.fingerprint == job.candidate.fingerprint:
                raise self._void(
                    "same_engine", f"both arms have the fingerprint {job.candidate.fingerprint}"
                )
            self._read_claim()
            with LoadGenerator(job.work / "load.log") as load:
                while True:
                    self._next_block(load)
                    self._look()
        except _Stop as stop:
            return stop.verdict

    def _read_claim(self) -> None:
        """A class that the target refuses is refused before anything is measured."""
        engine = self._job.candidate.engine
        if self._job.closeness is None or engine is None:
            return
        self._claim, refused = claimed_class(engine, self._job.target.numerics)
        if refused is not None:
            self._apply("candidate", refused)

    def _next_block(self, load: LoadGenerator) -> None:
        """Add a valid block; contended ones are repeated with other prompts."""
        settings = self._job.settings
        while True:
            workload = draw_workload(self._job.target, self._prompts, rounds=self._rounds)
            # Champion first, candidate first, champion first, …: two blocks are ABBA.
            names = (
                ["champion", "candidate"]
                if len(self._tried) % 2 == 0
                else [
                    "candidate",
                    "champion",
                ]
            )
            passes = {name: self._pass(name, workload, load) for name in names}
            is_contended = any(is_disturbed(seen, settings) for seen in passes.values())
            self._tried.append(block_json(names, passes, is_contended=is_contended))
            if not is_contended:
                self._add(workload, passes)
                self._rounds = rounds_for(passes.values(), settings, rounds=self._rounds)
                return
            contended = sum(1 for block in self._tried if block["contended"])
            if contended > settings.repeated_blocks:
                worst = max(seen.contention.other_share or 0.0 for seen in passes.values())
                raise self._void(
                    "contended",
                    f"{contended} of {len(self._tried)} blocks were disturbed; in the last one "
                    f"others used {100 * worst:.0f} % of the processors",
                )

    def _pass(self, name: str, workload: Workload, load: LoadGenerator) -> Pass:
        job = self._job
        again = None
        if name == "candidate" and "together" not in self._findings:
            again = together_wave(
                job.target, workload, self._prompts, most_tokens=job.settings.together_tokens
            )
        try:
            seen = run_pass(
                job.champion if name == "champion" else job.candidate,
                load,
                workload.waves,
                together=again,
                log=job.work / f"block{len(self._tried)}-{name}.log",
                timeout_seconds=job.settings.request_timeout_seconds,
            )
        except ServerFailed as error:
            if name == "champion":
                raise self._void("champion_failed", error.message) from error
            raise self._rejected(error.reason, error.message) from error
        except InternalError as error:
            raise self._void("load_failed", error.message) from error
        self._apply(name, check_answers(job.target, workload, seen))
        self._apply(name, check_texts(self._prompts.decode, seen))
        arm = job.champion if name == "champion" else job.candidate
        self._apply(name, check_engagement(arm.engine, seen.engagement))
        if again is not None:
            self._apply(name, check_together(seen))
        if not is_disturbed(seen, job.settings):
            # Of a disturbed pass, no time is used: a load generator that had to wait sees pieces
            # arrive together that were sent one by one.
            tolerance = job.settings.physics_tolerance
            self._apply(name, check_client(seen, limit=job.settings.load_share_limit))
            self._apply(name, check_physics(self._bounds, seen, tolerance=tolerance))
        return seen

    def _apply(self, name: str, finding: Finding) -> None:
        """Note what a gate found; end the trial if it did not pass."""
        if name == "candidate":
            self._findings[finding.gate] = finding
        if finding.void is not None:
            raise self._void(finding.void, finding.detail)
        if finding.rejected is not None and name == "champion":
            raise self._void("champion_failed", f"the champion fails a gate: {finding.detail}")
        if finding.rejected is not None:
            raise self._rejected(finding.rejected, finding.detail)

    def _add(self, workload: Workload, passes: dict[str, Pass]) -> None:
        target = self._job.target
        metrics = {name: pass_metrics(target, seen, self._floors) for name, seen in passes.items()}
        champion, candidate = metrics["champion"], metrics["candidate"]
        objective = target.workload.objective
        by_scenario = {
            scenario.name: speedup_log(
                objective,
                champion[f"{scenario.name}.{objective}"],
                candidate[f"{scenario.name}.{objective}"],
            )
            for scenario in target.workload.scenario
            if f"{scenario.name}.{objective}" in candidate
        }
        self._blocks.append(
            _Block(
                workload,
                passes["champion"],
                passes["candidate"],
                champion,
                candidate,
                by_scenario,
                block_samples(target, passes, by_scenario),
            )
        )
        if len(self._blocks) == 1:
            # A wrong engine is not worth the time of more blocks.
            outputs = self._outputs(self._blocks)
            shortest = min(outputs, key=lambda output: (not output.differs, output.positions))
            self._audit([shortest])

    def _look(self) -> None:
        settings = self._job.settings
        ratios = [block.log_ratio for block in self._blocks]
        smallest = math.log1p(settings.smallest_effect)
        decision = decide(
            ratios, settings.looks, smallest_effect=smallest, interval=self._interval()
        )
        if decision == "go_on":
            return
        comparison = self._comparison()
        if decision == "not_better":
            detail = (
                f"{comparison.speedup:.3f}x ({comparison.low:.3f} to {comparison.high:.3f}) "
                f"after {comparison.blocks} blocks"
            )
            raise self._rejected("slower", detail, comparison)
        self._check_guards(comparison)
        self._audit(choose(self._outputs(self._blocks), settings.audit_tokens, self._lot))
        self._check_closeness()
        raise _Stop(
            Kept(
                comparison=comparison,
                measurements={
                    "champion": _by_metric([block.champion_metrics for block in self._blocks]),
                    "candidate": _by_metric([block.candidate_metrics for block in self._blocks]),
                },
                evidence=self._evidence(),
            )
        )

    def _interval(self) -> Interval:
        return interval_of(self._job.settings.interval, [block.samples for block in self._blocks])

    def _comparison(self) -> Comparison:
        ratios = [block.log_ratio for block in self._blocks]
        found = self._interval()(ratios)
        return Comparison(
            speedup=math.exp(found.value),
            low=math.exp(found.low),
            high=math.exp(found.high),
            blocks=len(ratios),
            log_ratios=tuple(ratios),
            by_scenario={
                name: math.exp(estimate([block.by_scenario[name] for block in self._blocks]).value)
                for name in self._blocks[0].by_scenario
            },
        )

    def _check_guards(self, comparison: Comparison) -> None:
        settings = self._job.settings
        for name, ratio in comparison.by_scenario.items():
            found = estimate([block.by_scenario[name] for block in self._blocks])
            if ratio < 1.0 - settings.guard_slowdown and found.high < 0.0:
                detail = f"scenario {name} is slower: {ratio:.3f}x, though the whole is faster"
                raise self._rejected("guard", detail, comparison)
        for metric, limit in self._job.limits.items():
            worst = max(block.candidate_metrics.get(metric, 0.0) for block in self._blocks)
            held = max(block.champion_metrics.get(metric, 0.0) for block in self._blocks)
            if worst > limit >= held:
                detail = f"{metric} is {worst:.4g}; at most {limit:.4g} is accepted"
                raise self._rejected("guard", detail, comparison)

    def _outputs(self, blocks: list[_Block]) -> list[Output]:
        return [
            output
            for block in blocks
            for output in outputs_of(
                block.candidate.answers,
                block.workload.texts,
                block.workload.prompt_ids,
                champion=block.champion.answers,
            )
        ]

    def _audit(self, outputs: list[Output]) -> None:
        try:
            report = audit(outputs, self._job.oracle)
        except EngineError as error:
            raise self._void("oracle_failed", error.message) from error
        self._report = report
        self._apply("candidate", check_audit(report, self._job.target.numerics))

    def _check_closeness(self) -> None:
        """Hold the candidate to its claim, at every length."""
        job = self._job
        answers, engine, champion = job.closeness, job.candidate.engine, job.champion.engine
        if answers is None or engine is None or self._claim is None:
            return
        lengths = sorted(answers.sequences)
        try:
            for length in lengths:
                answers.of(answers.reference, length)
        except EngineError as error:
            raise self._void("oracle_failed", error.message) from error
        is_same: bool | None = None
        try:
            self._lengths = compare_lengths(answers, engine, lengths)
            if self._claim == "bit_exact" and champion is not None:
                is_same = is_same_to_the_byte(answers, engine, champion, lengths)
                is_same = is_same and not any(held.differs for held in self._outputs(self._blocks))
        except EngineError as error:
            raise self._rejected("died", error.message) from error
        plan = json.loads((engine / "plan.json").read_text(encoding="utf-8"))
        finding = check_closeness(
            self._claim,
            class_of_plan(plan),
            self._lengths,
            job.target.numerics,
            is_same=is_same,
        )
        self._apply("candidate", finding)

    def _rejected(
        self, reason: RejectedReason, detail: str, comparison: Comparison | None = None
    ) -> _Stop:
        return _Stop(
            Rejected(reason=reason, detail=detail, comparison=comparison, evidence=self._evidence())
        )

    def _void(self, reason: VoidReason, detail: str) -> _Stop:
        return _Stop(Void(reason=reason, detail=detail, evidence=self._evidence()))

    def _evidence(self) -> dict[str, Any]:
        job = self._job
        return {
            **frame_json(
                job.target,
                job.machine,
                job.settings,
                seed=self._seed,
                sandbox=sandbox_json(job.candidate),
            ),
            "arms": {
                "champion": {"name": job.champion.name, "fingerprint": job.champion.fingerprint},
                "candidate": {"name": job.candidate.name, "fingerprint": job.candidate.fingerprint},
            },
            "limits": dict(job.limits),
            "floors": {
                "speed": {name: asdict(floor) for name, floor in self._floors.items()},
                "physics": {name: asdict(floor) for name, floor in self._bounds.items()},
            },
            "blocks": self._tried,
            "gates": {
                name: {"checked": held.checked, "passed": held.has_passed, "detail": held.detail}
                for name, held in self._findings.items()
            },
            "audit": None if self._report is None else report_json(self._report),
            "change": {
                "claim": self._claim,
                "lengths": {
                    str(length): report.to_json() for length, report in self._lengths.items()
                },
            },
        }


def _by_metric(blocks: list[dict[str, float]]) -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(block[name] for block in blocks)
        for name in blocks[0]
        if all(name in block for block in blocks)
    }
