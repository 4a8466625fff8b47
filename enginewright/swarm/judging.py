"""The controller's questions to the judge, and its answers as findings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginewright.evaluation.confirm import NAIVE
from enginewright.evaluation.judge import MOST_REPEATED_BLOCKS
from enginewright.evaluation.judge_case import JudgeCase
from enginewright.evaluation.judge_client import JudgeGone, JudgeProcess
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.sandbox import Sandbox
from enginewright.swarm.run_folder import disk_errors
from enginewright.swarm.workbench import (
    Arms,
    Compared,
    Confirmed,
    Finding,
    Say,
    Subject,
    TrialRules,
)


class Judging:
    """Asks one judge process for each reference engine, and starts another if that one dies."""

    def __init__(
        self, program: Path, settings: JudgeSettings, sandbox: Sandbox | None = None
    ) -> None:
        self._program = program
        self._settings = settings
        self._sandbox = sandbox
        self._judge: JudgeProcess | None = None
        self._reference: Path | None = None

    def close(self) -> None:
        """End the judge's process."""
        if self._judge is not None:
            self._judge.close()
        self._judge = self._reference = None

    def trial(self, subject: Subject, arms: Arms, rules: TrialRules, say: Say) -> Finding:
        """The judge's verdict on `arms.candidate`."""
        try:
            answer = self._of(subject, arms.naive, arms.work).ask(
                "trial",
                champion=str(arms.champion),
                candidate=str(arms.candidate),
                work=str(arms.work),
                limits=dict(rules.limits),
                level=rules.level,
                smallest_effect=rules.smallest_effect,
            )
        except JudgeGone as error:
            self.close()
            return Finding(
                kind="void", headline=f"void: judge_gone: {error.message}",
                evidence={"error": str(error)}, speedup=None,
            )  # fmt: skip
        return finding_of(answer)

    def measure_bar(
        self, subject: Subject, naive: Path, work: Path, say: Say
    ) -> dict[str, dict[str, Any]]:
        """Metrics of one pass of the naive engine and each baseline. A baseline that fails has
        none.

        Raises: EngineError if the naive engine cannot be measured.
        """
        names = [NAIVE, *(baseline.name for baseline in subject.target.baseline)]
        say(f"measuring {', '.join(['the naive engine', *names[1:]])}")
        # One pass that shows where things stand: nothing is decided by it, so nothing is repeated.
        found = self._of(subject, naive, work).ask(
            "measure", arms={NAIVE: str(naive)}, blocks=1, work=str(work), with_baselines=True,
            required=[NAIVE],
        )  # fmt: skip
        for name, reason in found["failed"].items():
            say(f"baseline {name} could not be measured: {reason}")
        metrics: dict[str, dict[str, Any]] = found["metrics"]
        return metrics

    def calibrate(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> dict[str, Any]:
        """The champion against itself, over `blocks` blocks.

        Raises: EngineError if it fails.
        """
        say(f"measuring the champion against itself, {blocks} blocks")
        return self._of(subject, arms.naive, arms.work).ask(
            "calibrate", champion=str(arms.champion), blocks=blocks, work=str(arms.work)
        )

    def compare(
        self,
        subject: Subject,
        arms: Arms,
        engines: Mapping[str, Path],
        base: str,
        blocks: int,
        say: Say,
    ) -> Compared:
        """Engines side by side on inputs never seen, each against `base`.

        Raises: EngineError if `base` cannot be measured.
        """
        say(f"measuring the champion beside {len(engines) - 1} others, {blocks} blocks")
        found = self._of(subject, arms.naive, arms.work).ask(
            "measure", arms={name: str(path) for name, path in engines.items()}, blocks=blocks,
            work=str(arms.work), required=[base], compared_to=base,
            repeated_blocks=MOST_REPEATED_BLOCKS,
        )  # fmt: skip
        return Compared(
            log_ratios={name: held["log_ratios"] for name, held in found["ratios"].items()},
            failed=found["failed"],
            blocks=found["blocks"],
            disturbed_blocks=found["disturbed_blocks"],
            evidence=found["evidence"],
        )

    def confirm(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> Confirmed:
        """Champion, naive engine and baselines on fresh inputs, paired.

        Raises: EngineError if champion, naive or reference engine fail.
        """
        say(f"measuring champion and naive engine on fresh inputs, {blocks} blocks")
        found = self._of(subject, arms.naive, arms.work).ask(
            "confirm", champion=str(arms.champion), blocks=blocks, work=str(arms.work)
        )
        return Confirmed(**found)

    def _of(self, subject: Subject, reference: Path, work: Path) -> JudgeProcess:
        """The running judge of this reference engine."""
        is_held = self._judge is not None and self._judge.is_alive
        if self._judge is None or not is_held or self._reference != reference:
            self.close()
            with disk_errors(work):
                work.mkdir(parents=True, exist_ok=True)
            case = judge_case(
                subject, reference, self._program, self._settings, sandbox=self._sandbox
            )
            self._judge = JudgeProcess(case, work / "judge.log")
            self._reference = reference
        return self._judge


def judge_case(
    subject: Subject,
    reference: Path,
    program: Path,
    settings: JudgeSettings,
    *,
    sandbox: Sandbox | None,
) -> JudgeCase:
    """What the judge may know of a run: neither agents nor plans, only folders."""
    files = subject.graph.files
    only = subject.checkpoint / files[0].path if len(files) == 1 else subject.checkpoint
    return JudgeCase(
        target=subject.target,
        machine=subject.machine,
        program=program,
        reference=reference,
        checkpoint=subject.checkpoint,
        # llama.cpp and its like want the file, others the folder around their files.
        weights=only if only.suffix == ".gguf" else subject.checkpoint,
        threads=subject.threads,
        sandbox=sandbox,
        settings=settings,
    )


def finding_of(answer: dict[str, Any]) -> Finding:
    """A verdict (`verdict_to_json`) as the archive keeps it."""
    comparison = answer.get("comparison")
    speedup = None
    if comparison is not None:
        speedup = {
            "value": comparison["speedup"],
            "low": comparison["low"],
            "high": comparison["high"],
        }
    return Finding(
        kind=answer["verdict"], headline=answer["headline"], evidence=answer, speedup=speedup
    )
