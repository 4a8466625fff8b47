"""A/A: the champion against itself, before anything is believed of a difference.

Two arms of the same engine, fresh processes, the same blocks as a trial. What they differ by is
what this machine does by itself: it says how small an effect can be seen here at all.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from enginewright.errors import EngineError
from enginewright.evaluation.floors import target_floors
from enginewright.evaluation.load_generator import LoadGenerator
from enginewright.evaluation.metrics import pass_metrics, speedup_log
from enginewright.evaluation.passes import Pass, is_disturbed, rounds_for, run_pass
from enginewright.evaluation.prompts import PromptSource
from enginewright.evaluation.statistics import Looks, estimate
from enginewright.evaluation.trial import TrialJob
from enginewright.evaluation.workload import draw_workload

POWER = 0.9
"""Chance with which an effect of the detectable size is seen."""
SLOTS = ("first", "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the champion against itself showed."""

    log_ratios: tuple[float, ...]
    """Second slot over first, of each block, in the order taken."""
    sd: float
    """Standard deviation of a block's log ratio."""
    autocorrelation: float
    """Of neighbouring blocks; near 0 if blocks are independent."""
    low: float
    """Lower end of the 95 % interval of the ratio, which should hold 1."""
    high: float
    """Upper end."""
    detectable: float
    """Smallest speed-up that a trial sees with 90 % power at its last look: 0.01 is one per
    cent."""
    disturbed: int
    """Blocks that were repeated because others used the machine."""

    @property
    def holds_one(self) -> bool:
        """Whether the slots do not differ: else order or place favours one of them."""
        return self.low <= 1.0 <= self.high

    def to_json(self) -> dict[str, Any]:
        """For the archive."""
        return {
            "log_ratios": list(self.log_ratios),
            "sd": self.sd,
            "autocorrelation": self.autocorrelation,
            "low": self.low,
            "high": self.high,
            "detectable": self.detectable,
            "disturbed": self.disturbed,
        }


def calibration_of(log_ratios: list[float], looks: Looks, *, disturbed: int = 0) -> Calibration:
    """What paired blocks of one engine say.

    Raises: ValueError for fewer than three blocks.
    """
    if len(log_ratios) < 3:
        raise ValueError(f"{len(log_ratios)} blocks; a calibration needs 3 or more")
    values = np.asarray(log_ratios, dtype=np.float64)
    found = estimate(values)
    centred = values - values.mean()
    power = float(centred @ centred)
    neighbours = float(centred[1:] @ centred[:-1]) / power if power > 0 else 0.0
    sd = float(values.std(ddof=1))
    return Calibration(
        log_ratios=tuple(log_ratios),
        sd=sd,
        autocorrelation=neighbours,
        low=math.exp(found.low),
        high=math.exp(found.high),
        detectable=detectable_effect(sd, looks),
        disturbed=disturbed,
    )


def detectable_effect(sd: float, looks: Looks) -> float:
    """Smallest speed-up seen with 90 % power at the last look: by the bound of Student's t over
    batches of blocks, or by the normal approximation without batches."""
    # At the rate of that look alone: what the looks before it see comes on top.
    bound = stats.norm.isf(looks.alphas[-1])
    if looks.batch_blocks > 1:
        bound = stats.t.isf(looks.alphas[-1], looks.blocks[-1] // looks.batch_blocks - 1)
    reach = bound + stats.norm.isf(1.0 - POWER)
    return math.expm1(float(reach) * sd / math.sqrt(looks.blocks[-1]))


def calibrate(job: TrialJob, blocks: int) -> Calibration:
    """Measure the job's champion against itself over `blocks` valid blocks.

    Blocks that others disturbed are repeated as often as the rules allow, then counted.

    Raises: EngineError if the champion fails; TargetError as a trial.
    """
    settings = job.settings
    prompts = PromptSource(job.tokenizer, secrets.randbits(63))
    floors = target_floors(job.graph, job.target, job.machine)
    arms = {slot: replace_name(job.champion, slot) for slot in SLOTS}
    ratios: list[float] = []
    rounds, tried, disturbed = 1, 0, 0
    with LoadGenerator(job.work / "calibration.log") as load:
        while len(ratios) < blocks:
            workload = draw_workload(job.target, prompts, rounds=rounds)
            order = SLOTS if tried % 2 == 0 else SLOTS[::-1]
            passes: dict[str, Pass] = {}
            for slot in order:
                passes[slot] = run_pass(
                    arms[slot],
                    load,
                    workload.waves,
                    together=None,
                    log=job.work / f"calibration{tried}-{slot}.log",
                    timeout_seconds=settings.request_timeout_seconds,
                )
            tried += 1
            rounds = rounds_for(passes.values(), settings, rounds=rounds)
            if any(is_disturbed(seen, settings) for seen in passes.values()):
                disturbed += 1
                if disturbed <= settings.repeated_blocks:
                    continue
            first, second = (pass_metrics(job.target, passes[slot], floors) for slot in SLOTS)
            objective = job.target.workload.objective
            logs = [
                speedup_log(objective, first[name], second[name])
                for scenario in job.target.workload.scenario
                if (name := f"{scenario.name}.{objective}") in first and name in second
            ]
            if not logs:
                raise EngineError(f"the champion has no {objective} in a calibration")
            ratios.append(sum(logs) / len(logs))
    return calibration_of(ratios, settings.looks, disturbed=disturbed)


def replace_name(arm: Any, name: str) -> Any:
    """The arm under another name; servers that cannot be renamed stay as they are."""
    try:
        return replace(arm, name=name)
    except TypeError:
        return arm
