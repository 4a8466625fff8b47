"""The judge: answers questions about folders of files, and keeps the reference engine running from
one question to the next."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginewright.errors import EngineError
from enginewright.evaluation.build import engine_fingerprint
from enginewright.evaluation.calibration import calibrate
from enginewright.evaluation.change_class import class_of_plan, read_claim
from enginewright.evaluation.closeness import (
    LengthReport,
    ReferenceAnswers,
    check_closeness,
    compare_lengths,
)
from enginewright.evaluation.confirm import CHAMPION, NAIVE, confirm
from enginewright.evaluation.engine_process import EngineArm, serve_command
from enginewright.evaluation.harness import harness_sha256
from enginewright.evaluation.judge_case import JudgeCase
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.measurement import MeasureJob, measure_arms, require
from enginewright.evaluation.oracle import Oracle
from enginewright.evaluation.passes import Arm
from enginewright.evaluation.peers import PeerArm
from enginewright.evaluation.prompts import PromptSource
from enginewright.evaluation.trial import TrialJob, run_trial
from enginewright.evaluation.verdict import Verdict, Void, verdict_kind, verdict_to_json
from enginewright.model import Graph

MOST_REPEATED_BLOCKS = 2
"""Blocks of a confirmation that may be repeated because others used the machine: the naive engine
makes them long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialQuestion:
    """Which candidate, against which champion, at which price."""

    champion: Path
    """Engine folder of the best so far."""
    candidate: Path
    """Engine folder of the one on trial."""
    work: Path
    """Folder for logs."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Most allowed of protected metrics."""
    level: float | None = None
    """Error rate that the trial may spend; None leaves it to the rules."""
    smallest_effect: float | None = None
    """Speed-up below which a candidate is not kept; None leaves it to the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureQuestion:
    """Which engines to measure side by side; nothing is decided by it."""

    arms: Mapping[str, Path]
    """Engine folders by name."""
    blocks: int
    """Passes of each."""
    work: Path
    """Folder for logs."""
    with_baselines: bool = False
    """Whether the target's baselines stand beside them."""
    required: tuple[str, ...] = ()
    """Arms without which there is no answer."""
    compared_to: str | None = None
    """Arm that the speed of each other one is compared with."""
    repeated_blocks: int = 0
    """Blocks that may be repeated because others used the machine."""


class Judge:
    """Answers in JSON. A candidate's failure is a verdict; an error is the machine's or ours."""

    def __init__(self, case: JudgeCase) -> None:
        """Raises: EngineError if the reference engine's folder has no graph."""
        self._case = case
        try:
            text = (case.reference / "graph.json").read_text(encoding="utf-8")
        except OSError as error:
            raise EngineError(
                f"{case.reference}: no reference engine: {error.strerror}",
                hint="it is an engine folder, with graph.json, plan.json and tokenizer.json",
            ) from error
        self._graph = Graph.from_json(text)
        self._oracle: Oracle | None = None
        self._closeness = self._reference_answers()

    def close(self) -> None:
        """Stop the reference engine."""
        if self._oracle is not None:
            self._oracle.close()
        self._oracle = None

    def trial(self, asked: TrialQuestion) -> dict[str, Any]:
        """A verdict with its evidence (`verdict_to_json`)."""
        before = harness_sha256()
        try:
            verdict: Verdict = run_trial(self._job(asked))
        except EngineError as error:
            # The reference engine did not start: nothing is known about the candidate.
            verdict = Void(
                reason="oracle_failed", detail=error.message, evidence={"error": str(error)}
            )
        after = harness_sha256()
        if after != before:
            verdict = Void(
                reason="harness_changed",
                detail=f"the judge's own files changed while it judged: {before[:12]} before, "
                f"{after[:12]} after",
                evidence=verdict.evidence,
            )
        verdict.evidence["harness"] = {"before": before, "after": after}
        if verdict_kind(verdict) == "void":
            self.close()
        return verdict_to_json(verdict)

    def calibrate(self, champion: Path, blocks: int, work: Path) -> dict[str, Any]:
        """The champion against itself. Raises: EngineError if it fails."""
        asked = TrialQuestion(champion=champion, candidate=champion, work=work)
        return calibrate(self._job(asked), blocks).to_json()

    def measure(self, asked: MeasureQuestion) -> dict[str, Any]:
        """Metrics of each arm, and how much faster each is than the one it is compared with.

        Raises: EngineError if a required arm cannot be measured.
        """
        arms: tuple[Arm, ...] = tuple(self._arm(path, name) for name, path in asked.arms.items())
        if asked.with_baselines:
            arms += self._peers()
        rules = replace(self._case.settings, repeated_blocks=asked.repeated_blocks)
        measured = measure_arms(self._measure_job(arms, asked.blocks, asked.work, rules))
        for name in asked.required:
            require(measured, name)
        ratios = {}
        for arm in arms:
            if asked.compared_to is None or arm.name == asked.compared_to:
                continue
            found = measured.speedup(arm.name, asked.compared_to)
            if found is not None:
                ratios[arm.name] = {
                    **found.to_json(),
                    "log_ratios": measured.log_ratios(arm.name, asked.compared_to),
                }
        return {
            "metrics": {
                arm.name: {
                    metric: held.to_json() for metric, held in measured.metrics(arm.name).items()
                }
                for arm in arms
            },
            "failed": dict(measured.failed),
            "ratios": ratios,
            "blocks": asked.blocks,
            "disturbed_blocks": measured.disturbed_blocks,
            "evidence": {**measured.evidence, "harness": harness_sha256()},
        }

    def confirm(self, champion: Path, blocks: int, work: Path) -> dict[str, Any]:
        """Champion, reference engine and baselines on fresh inputs, paired: what may be claimed.

        Raises: EngineError if champion or reference engine fail.
        """
        arms: tuple[Arm, ...] = (
            self._arm(self._case.reference, NAIVE),
            self._arm(champion, CHAMPION),
            *self._peers(),
        )
        most = min(MOST_REPEATED_BLOCKS, self._case.settings.repeated_blocks)
        job = self._measure_job(
            arms, blocks, work, replace(self._case.settings, repeated_blocks=most)
        )
        found = confirm(replace(job, oracle=self._running_oracle(work)))

        def metrics(arm: str) -> dict[str, dict[str, Any]]:
            return {name: held.to_json() for name, held in found.measured.metrics(arm).items()}

        share = found.floor_share
        wrong = None if found.is_within_numerics else found.numerics_detail
        lengths, too_far = self._closeness_of(champion)
        return {
            "naive": metrics(NAIVE),
            "champion": metrics(CHAMPION),
            "baselines": {held.name: metrics(held.name) for held in self._case.target.baseline},
            "speedup": found.speedup.interval(),
            "floor_share": {"value": None, "low": None, "high": None, "unit": ""}
            if share is None
            else share.to_json(),
            "acceptance": [held.to_json() for held in found.acceptance],
            "wrong": wrong or too_far,
            "closeness": {str(length): held.to_json() for length, held in lengths.items()},
            "disturbed_blocks": found.measured.disturbed_blocks,
            "blocks": blocks,
            "evidence": {**found.evidence, "harness": harness_sha256()},
        }

    def _reference_answers(self) -> ReferenceAnswers | None:
        """Texts drawn now, for the whole campaign: candidates are built before and after, and see
        them only in the sandbox."""
        case = self._case
        lengths = [held for held in case.settings.closeness_lengths if held <= self._longest()]
        if not case.settings.closeness_lengths:
            return None
        prompts = PromptSource(case.reference / "tokenizer.json", secrets.randbits(63))
        return ReferenceAnswers(
            program=case.program,
            reference=case.reference,
            checkpoint=case.checkpoint,
            threads=case.threads,
            sandbox=case.sandbox,
            sequences={
                length: [
                    prompts.ids(prompts.prompt(length)) for _ in range(_texts_of_length(length))
                ]
                for length in lengths or [self._longest()]
            },
            is_encoder=case.target.is_encoder,
        )

    def _longest(self) -> int:
        """Tokens that reference engine and model have room for."""
        plan = json.loads((self._case.reference / "plan.json").read_text(encoding="utf-8"))
        context = self._graph.dimensions.context
        if self._graph.kind == "encoder":
            return context
        return min(context, int(plan["cache"].get("capacity", context)))

    def _closeness_of(self, champion: Path) -> tuple[dict[int, LengthReport], str | None]:
        """At every length and at a long one, and what is wrong with it.

        Raises: EngineError if champion or reference engine fail.
        """
        answers = self._closeness
        if answers is None:
            return {}, None
        lengths = sorted(answers.sequences)
        reports = compare_lengths(answers, champion, lengths)
        rules = self._case.settings
        rate = answers.tokens_per_second or 0.0
        long = min(rules.closeness_long, self._longest(), int(rate * rules.closeness_seconds))
        if long > lengths[-1]:
            prompts = PromptSource(self._case.reference / "tokenizer.json", secrets.randbits(63))
            further = replace(answers, sequences={long: [prompts.ids(prompts.prompt(long))]})
            reports |= compare_lengths(further, champion, [long])
        of_plan = class_of_plan(json.loads((champion / "plan.json").read_text(encoding="utf-8")))
        claim = read_claim(champion) or of_plan
        # That a step of the past was bit-exact says nothing of the whole.
        held_to = of_plan if claim == "bit_exact" else claim
        finding = check_closeness(
            held_to, of_plan, reports, self._case.target.numerics, is_same=None
        )
        return reports, finding.detail or None

    def _arm(self, engine: Path, name: str) -> EngineArm:
        case = self._case
        return EngineArm(
            name=name,
            fingerprint=engine_fingerprint(engine, case.program),
            command=serve_command(case.program, engine, case.checkpoint, threads=case.threads),
            engine=engine,
            reads=(engine, case.checkpoint),
            sandbox=case.sandbox,
        )

    def _peers(self) -> tuple[PeerArm, ...]:
        return tuple(
            PeerArm(
                baseline=baseline,
                checkpoint=self._case.weights,
                threads=self._case.threads,
                is_encoder=self._case.target.is_encoder,
            )
            for baseline in self._case.target.baseline
        )

    def _running_oracle(self, work: Path) -> Oracle:
        """Raises: EngineError if it does not start."""
        if self._oracle is None:
            arm = self._arm(self._case.reference, "reference")
            self._oracle = Oracle(arm, work / "reference.log")
        return self._oracle

    def _job(self, asked: TrialQuestion) -> TrialJob:
        settings = self._case.settings
        if asked.level is not None:
            settings = replace(settings, looks=settings.looks.at_level(asked.level))
        if asked.smallest_effect is not None:
            settings = replace(settings, smallest_effect=asked.smallest_effect)
        return TrialJob(
            target=self._case.target,
            graph=self._graph,
            machine=self._case.machine,
            tokenizer=self._case.reference / "tokenizer.json",
            champion=self._arm(asked.champion, "champion"),
            candidate=self._arm(asked.candidate, "candidate"),
            oracle=self._running_oracle(asked.work),
            closeness=self._closeness,
            work=asked.work,
            limits=dict(asked.limits),
            settings=settings,
        )

    def _measure_job(
        self, arms: tuple[Arm, ...], blocks: int, work: Path, settings: JudgeSettings
    ) -> MeasureJob:
        return MeasureJob(
            target=self._case.target,
            graph=self._graph,
            machine=self._case.machine,
            tokenizer=self._case.reference / "tokenizer.json",
            arms=arms,
            blocks=blocks,
            work=work,
            settings=settings,
        )


def _texts_of_length(length: int) -> int:
    """Short ones are cheap."""
    return 2 if length <= 64 else 1
