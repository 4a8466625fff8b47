"""The loop: variation, evaluation, retention, until the budget or the ideas are spent."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from enginewright.evaluation.change_class import write_claim
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.multiplicity import next_level
from enginewright.retention import CandidateRecord, TrialRecord
from enginewright.swarm.claim import claim_of
from enginewright.swarm.proposer import Proposal, Proposer
from enginewright.swarm.run import Run
from enginewright.swarm.run_folder import disk_errors
from enginewright.swarm.run_state import SEARCH
from enginewright.swarm.workbench import Finding, TrialRules
from enginewright.target import Target

KERNEL_CHECK_SECONDS = 60.0
"""Wall time of the kernel checks of one candidate; what is left over, the whole-engine gates
judge."""
PROTECTED = ("peak_memory_mib", "start_seconds")
"""Metrics that a faster engine may not be bought with."""
MOST_REPEATS = 32
"""So many proposals of plans already tried mean that the proposer has no other."""
CALIBRATION_BLOCKS = 8
"""Blocks of the champion against itself that open the campaign."""
MOST_VOID_IN_A_ROW = 3
"""So many measurements that say nothing mean that the machine is not fit to measure on."""


class Search:
    """One run's search. All it knows is in the archive: it may be begun again at any moment."""

    def __init__(self, run: Run, limits: dict[str, float]) -> None:
        """`limits`: most allowed of protected metrics (see `protected_limits`)."""
        self._run = run
        self._limits = limits
        self._smallest_effect: float | None = None
        self.state = run.state
        self.journal = run.journal

    def run(self, proposer: Proposer, *, patience: int) -> str:
        """Try candidates until the budget is spent, nothing is left to propose, or the last
        `patience`
        trials kept none. Why it ended, for people."""
        for candidate, trial in self.state.pending():
            self.journal.say(f"{candidate.id} was not finished: again")
            self._try(candidate, trial)
        repeats = 0
        while repeats < MOST_REPEATS:
            stop = (
                self.journal.budget.why_stop()
                or self._no_progress(patience)
                or self._calibrate_once()
            )
            if stop is not None:
                return stop
            proposal = proposer.propose(
                self.state.plan(self.state.champion()), say=self.journal.say
            )
            if proposal is None:
                # A proposer gives up too when there is no time left to screen.
                return self.journal.budget.why_stop() or "nothing is left to propose"
            if proposal.plan.sha256 in self.state.tried_plans():
                proposer.learn(proposal, _already_tried())
                repeats += 1
                continue
            repeats = 0
            candidate, trial = self._keep(proposal)
            proposer.learn(proposal, self._try(candidate, trial))
        return f"the last {MOST_REPEATS} proposals had been tried before"

    def _keep(self, proposal: Proposal) -> tuple[CandidateRecord, TrialRecord]:
        return self.state.add_candidate(
            proposal.plan,
            parent=self.state.champion().id,
            tactic=proposal.tactic,
            hypothesis=proposal.hypothesis,
            predicted_effect=proposal.predicted_effect,
            stage=SEARCH,
        )

    def _try(self, candidate: CandidateRecord, trial: TrialRecord) -> Finding:
        """Judge one candidate and keep the verdict."""
        start = time.monotonic()
        self.state.archive.begin_trial(trial.id)
        self.journal.tell(
            "trial",
            trial=trial.id,
            candidate=candidate.id,
            tactic=candidate.tactic,
            hypothesis=candidate.hypothesis,
            predicted_effect=candidate.predicted_effect,
        )
        is_leap = self.state.champion().parent is None
        finding = self._judge(candidate)
        self.state.finish(trial, finding.kind, finding.headline, finding.evidence)
        self.journal.budget.charge_trial(time.monotonic() - start, is_leap=is_leap)
        counts = self.state.counts()
        self.journal.tell(
            "verdict",
            trial=trial.id,
            candidate=candidate.id,
            tactic=candidate.tactic,
            verdict=finding.kind,
            reason=finding.headline,
            speedup=finding.speedup,
            seconds=self._run.stages.by_candidate.get(candidate.id, {}),
            kept=counts.kept,
            rejected=counts.rejected,
            void=counts.void,
        )
        if finding.kind == "kept":
            self._run.folder.point_champion_at(candidate.id)
            self.journal.tell("champion", candidate=candidate.id, tactic=candidate.tactic)
        return finding

    def _judge(self, candidate: CandidateRecord) -> Finding:
        plan = self.state.plan(candidate)
        engine = self._run.folder.engine(candidate.id)
        with self._run.stages.stage("build", candidate.id):
            refused = self._run.bench.build(
                self._run.subject, plan, self._run.folder.candidate(candidate.id), engine
            )
        if refused is not None:
            return refused
        if candidate.parent is not None:
            parent = self.state.plan(self.state.candidate(candidate.parent))
            with disk_errors(engine):
                write_claim(engine, claim_of(plan, parent))
        with self._run.stages.stage("kernel_check", candidate.id):
            wrong = self._run.bench.check_kernels(
                self._run.subject, plan, engine, KERNEL_CHECK_SECONDS
            )
        if wrong is not None:
            return wrong
        arms = replace(self._run.champion_arms(), candidate=engine)
        with self._run.stages.stage("trial", candidate.id):
            return self._run.bench.trial(self._run.subject, arms, self.rules(), self.journal.say)

    def rules(self) -> TrialRules:
        """Of the next trial: what it may spend of the campaign's error rate, and the least effect
        that this machine shows."""
        decided = [
            trial.verdict == "kept"
            for trial in self.state.trials(SEARCH)
            if trial.verdict in ("kept", "rejected")
        ]
        return TrialRules(
            limits=self._limits,
            level=next_level(decided),
            smallest_effect=self._smallest_effect,
        )

    def _calibrate_once(self) -> str | None:
        """The champion against itself, once the first fast one is there. Why the search must stop,
        or None."""
        if self.state.champion().parent is None:
            return None
        held = self.state.last_event("calibrated")
        if held is None:
            with self._run.stages.stage("calibrate"):
                held = self._calibrated()
        if not held["holds_one"]:
            return (
                f"the champion differs from itself ({held['low']:.3f} to {held['high']:.3f}): this "
                "machine favours one place or order, and no comparison on it can be trusted"
            )
        self._smallest_effect = max(held["asked"], held["detectable"])
        return None

    def _calibrated(self) -> dict[str, Any]:
        asked = JudgeSettings().smallest_effect
        arms = self._run.champion_arms()
        for _ in range(2):
            found = self._run.bench.calibrate(
                self._run.subject, arms, CALIBRATION_BLOCKS, self.journal.say
            )
            # One in twenty honest calibrations misses 1: it gets a second chance, no third.
            holds_one = found["low"] <= 1.0 <= found["high"]
            if holds_one:
                break
        told = {**found, "asked": asked, "holds_one": holds_one}
        self.journal.tell("calibrated", **told)
        return told

    def _no_progress(self, patience: int) -> str | None:
        verdicts = [trial.verdict for trial in self.state.trials(SEARCH)]
        if verdicts[-MOST_VOID_IN_A_ROW:] == ["void"] * MOST_VOID_IN_A_ROW:
            return f"the last {MOST_VOID_IN_A_ROW} trials measured nothing"
        if len(verdicts) >= patience and "kept" not in verdicts[-patience:]:
            return f"the last {patience} trials kept nothing"
        return None


def protected_limits(target: Target, bar: dict[str, dict[str, Any]]) -> dict[str, float]:
    """What no candidate may exceed: memory and start-up time, where the target accepts only so
    much."""
    limits: dict[str, float] = {}
    for criterion in target.accept:
        if criterion.metric not in PROTECTED or criterion.comparison != "<=":
            continue
        if criterion.against == "absolute":
            limit = criterion.value
        elif criterion.metric in bar.get(criterion.against, {}):
            limit = criterion.value * bar[criterion.against][criterion.metric]["value"]
        else:
            # The arm does not tell it: the confirmation says so.
            continue
        limits[criterion.metric] = min(limit, limits.get(criterion.metric, limit))
    return limits


def _already_tried() -> Finding:
    return Finding(
        kind="rejected",
        headline="rejected: the same plan was tried before",
        evidence={},
        speedup=None,
    )
