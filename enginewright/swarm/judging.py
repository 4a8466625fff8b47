"""The judge at work: arms from engine folders, the running reference engine, verdicts as
findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from enginewright.delivery.peers import PeerArm
from enginewright.errors import EngineError
from enginewright.evaluation.build import engine_fingerprint
from enginewright.evaluation.calibration import calibrate
from enginewright.evaluation.confirm import CHAMPION, NAIVE, confirm
from enginewright.evaluation.engine_process import EngineArm, serve_command
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.measurement import MeasureJob, measure_arms, require
from enginewright.evaluation.oracle import Oracle
from enginewright.evaluation.passes import Arm
from enginewright.evaluation.sandbox import Sandbox
from enginewright.evaluation.trial import TrialJob, run_trial
from enginewright.evaluation.verdict import (
    Kept,
    Rejected,
    Verdict,
    headline,
    verdict_kind,
    verdict_to_json,
)
from enginewright.swarm.run_folder import disk_errors
from enginewright.swarm.workbench import Arms, Confirmed, Finding, Say, Subject, TrialRules

MOST_REPEATED_BLOCKS = 2
"""Blocks of a confirmation that may be repeated because others used the machine: the naive engine
makes them long."""


class Judging:
    """Runs trials. The reference engine is started once and idle while anything is timed."""

    def __init__(
        self, program: Path, settings: JudgeSettings, sandbox: Sandbox | None = None
    ) -> None:
        self._program = program
        self._sandbox = sandbox
        self._settings = settings
        self._oracle: Oracle | None = None
        self._oracle_of: Path | None = None

    def close(self) -> None:
        """Stop the reference engine."""
        if self._oracle is not None:
            self._oracle.close()
        self._oracle = self._oracle_of = None

    def trial(self, subject: Subject, arms: Arms, rules: TrialRules, say: Say) -> Finding:
        """The judge's verdict on `arms.candidate`."""
        try:
            verdict = run_trial(self._job(subject, arms, rules))
        except EngineError as error:
            # The reference engine did not start: nothing is known about the candidate.
            return Finding(
                kind="void", headline=f"void: oracle_failed: {error.message}",
                evidence={"error": str(error)}, speedup=None,
            )  # fmt: skip
        if verdict_kind(verdict) == "void":
            self.close()
        return finding_of(verdict)

    def measure_bar(
        self, subject: Subject, naive: Path, work: Path, say: Say
    ) -> dict[str, dict[str, Any]]:
        """Metrics of one pass of the naive engine and each baseline. A baseline that fails has
        none.

        Raises: EngineError if the naive engine cannot be measured.
        """
        peers = self._peers(subject)
        say(f"measuring {', '.join(['the naive engine', *(arm.name for arm in peers)])}")
        arms: tuple[Arm, ...] = (self.arm(subject, naive, NAIVE), *peers)
        job = self._measure_job(subject, naive, work, arms, blocks=1)
        # One pass that shows where things stand: nothing is decided by it, so nothing is repeated.
        once = replace(self._settings, repeated_blocks=0)
        measured = measure_arms(replace(job, settings=once))
        require(measured, NAIVE)
        for name, reason in measured.failed.items():
            say(f"baseline {name} could not be measured: {reason}")
        return {
            arm.name: {
                metric: held.to_json() for metric, held in measured.metrics(arm.name).items()
            }
            for arm in arms
        }

    def confirm(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> Confirmed:
        """Champion, naive engine and baselines on fresh inputs, paired.

        Raises: EngineError if champion, naive or reference engine fail.
        """
        say(f"measuring champion and naive engine on fresh inputs, {blocks} blocks")
        measured_arms: tuple[Arm, ...] = (
            self.arm(subject, arms.naive, NAIVE),
            self.arm(subject, arms.champion, CHAMPION),
            *self._peers(subject),
        )
        job = self._measure_job(subject, arms.naive, arms.work, measured_arms, blocks=blocks)
        oracle = self.oracle(subject, arms.naive, arms.work)
        rules = replace(
            self._settings,
            repeated_blocks=min(MOST_REPEATED_BLOCKS, self._settings.repeated_blocks),
        )
        found = confirm(replace(job, oracle=oracle, settings=rules))

        def metrics(arm: str) -> dict[str, dict[str, Any]]:
            return {name: held.to_json() for name, held in found.measured.metrics(arm).items()}

        speed = found.speedup
        share = found.floor_share
        return Confirmed(
            naive=metrics(NAIVE),
            champion=metrics(CHAMPION),
            baselines={
                baseline.name: metrics(baseline.name) for baseline in subject.target.baseline
            },
            speedup={"value": speed.value, "low": speed.low, "high": speed.high},
            floor_share={"value": None, "low": None, "high": None, "unit": ""}
            if share is None
            else share.to_json(),
            acceptance=[held.to_json() for held in found.acceptance],
            wrong=None if found.is_within_numerics else found.numerics_detail,
            disturbed_blocks=found.measured.disturbed_blocks,
            blocks=blocks,
            evidence=found.evidence,
        )

    def _peers(self, subject: Subject) -> tuple[PeerArm, ...]:
        files = subject.graph.files
        only = subject.checkpoint / files[0].path if len(files) == 1 else subject.checkpoint
        return tuple(
            PeerArm(
                baseline=baseline,
                # llama.cpp and its like want the file, others the folder around their files.
                checkpoint=only if only.suffix == ".gguf" else subject.checkpoint,
                threads=subject.threads,
                is_encoder=subject.target.is_encoder,
            )
            for baseline in subject.target.baseline
        )

    def _measure_job(
        self, subject: Subject, naive: Path, work: Path, arms: tuple[Arm, ...], *, blocks: int
    ) -> MeasureJob:
        with disk_errors(work):
            work.mkdir(parents=True, exist_ok=True)
        return MeasureJob(
            target=subject.target,
            graph=subject.graph,
            machine=subject.machine,
            tokenizer=naive / "tokenizer.json",
            arms=arms,
            blocks=blocks,
            work=work,
            settings=self._settings,
        )

    def arm(self, subject: Subject, engine: Path, name: str) -> EngineArm:
        """An engine folder that can be started."""
        return EngineArm(
            name=name,
            fingerprint=engine_fingerprint(engine, self._program),
            command=serve_command(
                self._program, engine, subject.checkpoint, threads=subject.threads
            ),
            engine=engine,
            reads=(engine, subject.checkpoint),
            sandbox=self._sandbox,
        )

    def oracle(self, subject: Subject, naive: Path, work: Path) -> Oracle:
        """The running reference engine. Raises: EngineError if it does not start."""
        if self._oracle is None or self._oracle_of != naive:
            self.close()
            with disk_errors(work):
                work.mkdir(parents=True, exist_ok=True)
            self._oracle = Oracle(self.arm(subject, naive, "reference"), work / "reference.log")
            self._oracle_of = naive
        return self._oracle

    def calibrate(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> dict[str, Any]:
        """The champion against itself, over `blocks` blocks.

        Raises: EngineError if it fails.
        """
        say(f"measuring the champion against itself, {blocks} blocks")
        return calibrate(self._job(subject, arms, TrialRules()), blocks).to_json()

    def _rules(self, rules: TrialRules) -> JudgeSettings:
        settings = self._settings
        if rules.level is not None:
            settings = replace(settings, looks=settings.looks.at_level(rules.level))
        if rules.smallest_effect is not None:
            settings = replace(settings, smallest_effect=rules.smallest_effect)
        return settings

    def _job(self, subject: Subject, arms: Arms, rules: TrialRules) -> TrialJob:
        return TrialJob(
            target=subject.target,
            graph=subject.graph,
            machine=subject.machine,
            tokenizer=arms.naive / "tokenizer.json",
            champion=self.arm(subject, arms.champion, "champion"),
            candidate=self.arm(subject, arms.candidate, "candidate"),
            oracle=self.oracle(subject, arms.naive, arms.work),
            work=arms.work,
            limits=rules.limits,
            settings=self._rules(rules),
        )


def finding_of(verdict: Verdict) -> Finding:
    """A verdict as the archive keeps it."""
    speedup = None
    comparison = verdict.comparison if isinstance(verdict, Kept | Rejected) else None
    if comparison is not None:
        speedup = {
            "value": comparison.speedup,
            "low": comparison.low,
            "high": comparison.high,
        }
    evidence: dict[str, Any] = verdict_to_json(verdict)
    return Finding(
        kind=verdict_kind(verdict),
        headline=headline(verdict),
        evidence=evidence,
        speedup=speedup,
    )
