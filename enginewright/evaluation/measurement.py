"""Several arms measured side by side: the bar before the search, and the confirmation after it."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginewright.errors import EngineError
from enginewright.evaluation.audit import (
    AuditReport,
    Output,
    audit,
    choose,
    outputs_of,
    report_json,
)
from enginewright.evaluation.engine_process import sandbox_json
from enginewright.evaluation.evidence import block_json, frame_json
from enginewright.evaluation.floors import target_floors
from enginewright.evaluation.gates import check_answers, check_physics
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.load_generator import LoadGenerator
from enginewright.evaluation.metrics import pass_metrics, speedup_log
from enginewright.evaluation.oracle import Oracle
from enginewright.evaluation.passes import Arm, Pass, is_disturbed, rounds_for, run_pass
from enginewright.evaluation.prompts import PromptSource
from enginewright.evaluation.running_server import ServerFailed
from enginewright.evaluation.statistics import Estimate, estimate
from enginewright.evaluation.workload import Workload, draw_workload
from enginewright.model import Graph
from enginewright.target import METRICS, Machine, Target, metric_rule


@dataclass(frozen=True, kw_only=True)
class MeasureJob:
    """Arms to measure under the target's workload."""

    target: Target
    """The workload."""
    graph: Graph
    """The model, for its bytes and flops."""
    machine: Machine
    """What it runs on."""
    tokenizer: Path
    """tokenizer.json of the reference engine."""
    arms: tuple[Arm, ...]
    """Engines and other servers; names are unique."""
    blocks: int
    """Passes of each arm."""
    work: Path
    """Folder for logs."""
    oracle: Oracle | None = None
    """Judges outputs of the arms that tell their token ids, if given."""
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    """The rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A figure with its 95 % interval."""

    value: float
    """Geometric Hodges-Lehmann estimate over the blocks."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    unit: str
    """Unit of all three."""

    def to_json(self) -> dict[str, Any]:
        """For `--json` and reports."""
        return {**self.interval(), "unit": self.unit}

    def interval(self) -> dict[str, float]:
        """Without the unit."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was seen of each arm."""

    target: Target
    """The workload."""
    samples: dict[str, dict[int, dict[str, float]]]
    """Arm → block → metric → value. A block that an arm did not finish is absent."""
    failed: dict[str, str]
    """Arm → why it has too few blocks; such an arm has no metrics."""
    audits: dict[str, AuditReport]
    """Arm → what the reference engine says of its outputs."""
    disturbed_blocks: int
    """Blocks during which others used the machine more than the rules allow."""
    evidence: dict[str, Any]
    """Everything to decide again from."""

    def metrics(self, arm: str) -> dict[str, MetricValue]:
        """Every metric of an arm; empty if it failed."""
        blocks = list(self.samples.get(arm, {}).values())
        if arm in self.failed or not blocks:
            return {}
        values = {
            name: _positive_value([block[name] for block in blocks], unit=metric_rule(name).unit)
            for name in blocks[0]
            if all(name in block for block in blocks)
        }
        if arm in self.audits:
            values |= {
                name: MetricValue(value=value, low=value, high=value, unit=METRICS[name].unit)
                for name, value in self.audits[arm].metrics().items()
            }
        return values

    def ratio(self, metric: str, arm: str, other: str) -> Estimate | None:
        """The arm's value over the other's, from blocks that both finished; None without any."""
        return _paired(
            [
                math.log(mine[metric] / theirs[metric])
                for mine, theirs in self._pairs(arm, other)
                if metric in mine and metric in theirs
            ]
        )

    def speedup(self, arm: str, other: str) -> Estimate | None:
        """How many times better the arm is in the objective, over all scenarios."""
        return _paired(self.log_ratios(arm, other))

    def log_ratios(self, arm: str, other: str) -> list[float]:
        """Of each block that both finished: logarithm of how many times better the arm is."""
        objective = self.target.workload.objective
        names = [f"{scenario.name}.{objective}" for scenario in self.target.workload.scenario]
        logs = []
        for mine, theirs in self._pairs(arm, other):
            held = [speedup_log(name, theirs[name], mine[name]) for name in names if name in mine]
            logs.append(sum(held) / len(held))
        return logs

    def _pairs(self, arm: str, other: str) -> list[tuple[dict[str, float], dict[str, float]]]:
        mine, theirs = self.samples.get(arm, {}), self.samples.get(other, {})
        if arm in self.failed or other in self.failed:
            return []
        return [(mine[block], theirs[block]) for block in sorted(mine.keys() & theirs.keys())]


def measure_arms(job: MeasureJob) -> Measured:
    """Measure every arm in every block, in turn and in rotating order, on the same fresh prompts.

    An arm that fails is named with its reason, and the others go on. Blocks that others disturbed
    are repeated as often as the rules allow, then counted.

    Raises: TargetError if the tokenizer makes no text of a scenario's length; EngineError if the
    reference engine fails.
    """
    return _Measurement(job).run()


class _Measurement:
    def __init__(self, job: MeasureJob) -> None:
        self._job = job
        self._seed = secrets.randbits(63)
        self._prompts = PromptSource(job.tokenizer, self._seed)
        self._floors = target_floors(job.graph, job.target, job.machine)
        self._bounds = target_floors(
            job.graph, job.target, job.machine, cached_bytes=job.machine.last_level_cache_bytes
        )
        self._samples: dict[str, dict[int, dict[str, float]]] = {arm.name: {} for arm in job.arms}
        self._failed: dict[str, str] = {}
        self._outputs: dict[str, list[Output]] = {arm.name: [] for arm in job.arms}
        self._told: list[dict[str, Any]] = []

    def run(self) -> Measured:
        job = self._job
        repeats = job.settings.repeated_blocks
        disturbed = 0
        with LoadGenerator(job.work / "load.log") as load:
            block, rounds = 0, 1
            while block < job.blocks:
                workload = draw_workload(job.target, self._prompts, rounds=rounds)
                passes = self._passes(block, workload, load)
                is_contended = any(is_disturbed(seen, job.settings) for seen in passes.values())
                self._told.append(block_json(list(passes), passes, is_contended=is_contended))
                if is_contended and repeats > 0:
                    repeats -= 1
                    continue
                disturbed += is_contended
                self._add(block, workload, passes)
                rounds = rounds_for(passes.values(), job.settings, rounds=rounds)
                block += 1
        for arm in job.arms:
            if arm.name not in self._failed and len(self._samples[arm.name]) < max(
                1, job.blocks // 2
            ):
                self._failed[arm.name] = "gave no whole answers in most blocks"
        audits = self._audits()
        return Measured(
            target=job.target,
            samples=self._samples,
            failed=self._failed,
            audits=audits,
            disturbed_blocks=disturbed,
            evidence={
                **frame_json(
                    job.target,
                    job.machine,
                    job.settings,
                    seed=self._seed,
                    sandbox=next(filter(None, map(sandbox_json, job.arms)), None),
                ),
                "arms": {arm.name: arm.fingerprint for arm in job.arms},
                "failed": dict(self._failed),
                "disturbed_blocks": disturbed,
                "blocks": self._told,
                "audits": {name: report_json(report) for name, report in audits.items()},
            },
        )

    def _passes(self, block: int, workload: Workload, load: LoadGenerator) -> dict[str, Pass]:
        passes = {}
        for arm in _order(self._job.arms, block):
            if arm.name in self._failed:
                continue
            try:
                passes[arm.name] = run_pass(
                    arm,
                    load,
                    workload.waves,
                    together=None,
                    log=self._job.work / f"block{len(self._told)}-{arm.name}.log",
                    timeout_seconds=self._job.settings.request_timeout_seconds,
                )
            except ServerFailed as error:
                self._failed[arm.name] = f"{error.reason}: {error.message}"
        return passes

    def _add(self, block: int, workload: Workload, passes: dict[str, Pass]) -> None:
        job = self._job
        by_name = {arm.name: arm for arm in job.arms}
        for name, seen in passes.items():
            is_ours = by_name[name].speaks_token_ids
            finding = check_answers(job.target, workload, seen, is_ours=is_ours)
            if not finding.has_passed:
                # Other servers may stop at an end token; that block is no pair.
                if is_ours:
                    self._failed[name] = finding.detail
                continue
            finding = check_physics(self._bounds, seen, tolerance=job.settings.physics_tolerance)
            if not finding.has_passed:
                # A load generator that had to wait sees pieces arrive together: no pair either.
                if not is_disturbed(seen, job.settings):
                    self._failed[name] = finding.detail
                continue
            self._samples[name][block] = pass_metrics(job.target, seen, self._floors)
            if is_ours:
                self._outputs[name] += outputs_of(seen.answers, workload.texts, workload.prompt_ids)

    def _audits(self) -> dict[str, AuditReport]:
        job = self._job
        if job.oracle is None:
            return {}
        lot = random.Random(self._seed ^ 1)
        return {
            name: audit(choose(outputs, job.settings.audit_tokens, lot), job.oracle)
            for name, outputs in self._outputs.items()
            if outputs and name not in self._failed
        }


def _order(arms: Sequence[Arm], block: int) -> list[Arm]:
    """Rotated by the block, and backwards in every other one: two arms alternate as ABBA."""
    if len(arms) == 2:
        return list(arms) if block % 2 == 0 else list(reversed(arms))
    first = (block // 2) % max(1, len(arms))
    rotated = [*arms[first:], *arms[:first]]
    return rotated if block % 2 == 0 else rotated[::-1]


def _positive_value(samples: Sequence[float], *, unit: str) -> MetricValue:
    found = estimate([math.log(sample) for sample in samples])
    return MetricValue(
        value=math.exp(found.value), low=math.exp(found.low), high=math.exp(found.high), unit=unit
    )


def _paired(logs: Sequence[float]) -> Estimate | None:
    if not logs:
        return None
    found = estimate(logs)
    return Estimate(value=math.exp(found.value), low=math.exp(found.low), high=math.exp(found.high))


def require(measured: Measured, arm: str) -> None:
    """Raises: EngineError with the reason if an arm that must be measured failed."""
    if arm in measured.failed:
        raise EngineError(f"{arm} could not be measured: {measured.failed[arm]}")
