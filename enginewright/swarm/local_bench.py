"""The workbench of this machine: the real builder, checks, judge and delivery."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginewright.errors import InternalError, PlanError
from enginewright.evaluation.build import NotBuilt, build_engine
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.sandbox import Sandbox
from enginewright.model import Checkpoint
from enginewright.plan import Capacity, Plan, check_plan, naive_plan, write_candidate
from enginewright.settings import Settings
from enginewright.swarm.delivered import ask_delivered, deliver
from enginewright.swarm.device_lock import LOCK_FILE, DeviceLock
from enginewright.swarm.judging import Judging
from enginewright.swarm.kernel_checks import KernelChecks
from enginewright.swarm.oracle_check import check_against_oracle
from enginewright.swarm.subject import read_subject, write_inputs
from enginewright.swarm.workbench import (
    Arms,
    Compared,
    Confirmed,
    Delivered,
    Finding,
    Say,
    Subject,
    TrialRules,
)
from enginewright.target import LoadedTarget


class LocalBench:
    """Works in this process and its children; one thing at a time, so that timings are
    undisturbed."""

    def __init__(
        self,
        settings: Settings,
        *,
        judge: JudgeSettings | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """`judge` overrides the rules of trials; `sandbox` is what candidates run in."""
        self._settings = settings
        self._sandbox = sandbox
        self._checkpoint: Checkpoint | None = None
        self._kernel_checks = KernelChecks(settings.home / "checked", sandbox)
        self._judging = Judging(settings.engine_program, judge or JudgeSettings(), sandbox)
        self.device = DeviceLock(settings.home / LOCK_FILE)

    def inspect(self, loaded: LoadedTarget, say: Say) -> Subject:
        """Read everything the target names. Raises: as `read_subject`."""
        subject, self._checkpoint = read_subject(loaded, self._settings, say)
        return subject

    def take(self, checkpoint: Checkpoint) -> None:
        """Work for a subject that was inspected before."""
        self._checkpoint = checkpoint

    def close(self) -> None:
        """Stop what is still running."""
        self._judging.close()

    def naive_plan(self, subject: Subject) -> Plan:
        """One plain kernel an op, with room for the workload."""
        return naive_plan(
            subject.graph, subject.library, subject.threads, capacity=capacity_for(subject)
        )

    def build(self, subject: Subject, plan: Plan, candidate: Path, engine: Path) -> Finding | None:
        """Check the plan, write the candidate, compile its kernels."""
        try:
            check_plan(plan, subject.graph, subject.library, subject.allowed)
        except PlanError as error:
            return _not_built(error.message, {"log": str(error)})
        inputs = engine.parent.parent / "inputs"
        write_inputs(subject, self._held_checkpoint(), inputs)
        write_candidate(plan, subject.library, inputs, candidate)
        result = build_engine(
            candidate,
            engine,
            self._settings.home / "objects",
            subject.machine.features,
            host_program=self._settings.engine_program,
            sandbox=self._sandbox,
        )
        if not isinstance(result, NotBuilt):
            return None
        named = f"kernel {result.kernel}: " if result.kernel else ""
        return _not_built(named + result.reason, {"kernel": result.kernel, "log": result.log})

    def check_naive(self, subject: Subject, engine: Path, say: Say) -> Finding:
        """Against the recorded oracle, or NumPy."""
        say("comparing the naive engine with the original implementation's answers")
        return check_against_oracle(
            self._settings.engine_program, engine, subject.graph, self._held_checkpoint()
        )

    def check_kernels(
        self, subject: Subject, plan: Plan, engine: Path, seconds: float
    ) -> Finding | None:
        """Objects that were never checked, each in a process of its own."""
        return self._kernel_checks.check(subject.graph, subject.library, engine, seconds=seconds)

    def measure_bar(
        self, subject: Subject, naive: Path, work: Path, say: Say
    ) -> dict[str, dict[str, Any]]:
        """The naive engine and each baseline under the target's workload."""
        with self.device.held():
            return self._judging.measure_bar(subject, naive, work, say)

    def trial(self, subject: Subject, arms: Arms, rules: TrialRules, say: Say) -> Finding:
        """The judge's verdict."""
        with self.device.held():
            return self._judging.trial(subject, arms, rules, say)

    def calibrate(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> dict[str, Any]:
        """The champion against itself."""
        with self.device.held():
            return self._judging.calibrate(subject, arms, blocks, say)

    def compare(
        self,
        subject: Subject,
        arms: Arms,
        engines: Mapping[str, Path],
        base: str,
        blocks: int,
        say: Say,
    ) -> Compared:
        """Engines side by side."""
        return self._judging.compare(subject, arms, engines, base, blocks, say)

    def confirm(self, subject: Subject, arms: Arms, blocks: int, say: Say) -> Confirmed:
        """Champion and naive engine on fresh inputs."""
        with self.device.held():
            return self._judging.confirm(subject, arms, blocks, say)

    def deliver(
        self, subject: Subject, arms: Arms, candidate: Path, out: Path, evidence: list[str]
    ) -> Delivered:
        """One program with a manifest."""
        return deliver(subject, arms.champion, candidate, out, evidence)

    def ask_once(self, subject: Subject, delivered: Delivered) -> dict[str, str]:
        """One request to the delivered program."""
        return ask_delivered(
            subject, delivered, delivered.binary.parent.parent / "work/shipped.log"
        )

    def _held_checkpoint(self) -> Checkpoint:
        if self._checkpoint is None:
            raise InternalError("a build before the inspection. This is a bug.")
        return self._checkpoint


def capacity_for(subject: Subject) -> Capacity:
    """Room for the workload: its longest sequences, its streams, its batches; and for everyday
    use."""
    scenarios = subject.target.workload.scenario
    context = subject.graph.dimensions.context
    longest = max(scenario.prompt_tokens + scenario.output_tokens for scenario in scenarios)
    default = Capacity()
    streams = max(scenario.streams for scenario in scenarios)
    if subject.target.is_encoder:
        return Capacity(
            prefill_rows=max(default.prefill_rows, context), context=context, slots=default.slots
        )
    return Capacity(
        decode_rows=max(default.decode_rows, streams),
        prefill_selected=max(default.prefill_selected, streams),
        context=min(context, max(default.context, longest + 16)),
        slots=max(default.slots, streams),
    )


def _not_built(reason: str, evidence: dict[str, Any]) -> Finding:
    return Finding(
        kind="rejected",
        headline=f"rejected: not_built: {reason}",
        evidence={"gate": "build", **evidence},
        speedup=None,
    )
