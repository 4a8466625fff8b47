"""A run as the archive has it: what is done, what is pending, who is champion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from enginewright.plan import Plan
from enginewright.retention import Archive, CandidateRecord, SignedLedger, Store, TrialRecord

NAIVE, SEARCH, CONFIRM = "naive", "search", "confirm"
SHORTLIST, ABLATION = "shortlist", "ablation"
"""Stages of trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Trials of the search by verdict."""

    kept: int
    """Became champion."""
    rejected: int
    """Were no better, or no good."""
    void: int
    """Measured nothing."""


class RunState:
    """Reads and writes one run. Nothing is remembered here that is not in the archive."""

    def __init__(
        self, archive: Archive, store: Store, run: str, ledger: SignedLedger | None = None
    ) -> None:
        self.archive = archive
        self.store = store
        self.run = run
        self._ledger = ledger

    def add_candidate(
        self,
        plan: Plan,
        *,
        parent: str | None,
        tactic: str,
        hypothesis: str,
        predicted_effect: float,
        stage: str,
    ) -> tuple[CandidateRecord, TrialRecord]:
        """Keep a candidate and queue its trial."""
        number = len(self.archive.candidates(self.run))
        candidate = CandidateRecord(
            id=f"{self.run}-{number:03d}",
            run=self.run,
            parent=parent,
            tactic=tactic,
            hypothesis=hypothesis,
            predicted_effect=predicted_effect,
            plan_sha256=self.store.put(plan.to_json().encode()),
        )
        return candidate, self.archive.add_candidate(candidate, stage)

    def plan(self, candidate: CandidateRecord) -> Plan:
        """The plan of a candidate."""
        return Plan.from_json(self.store.get(candidate.plan_sha256))

    def candidate(self, candidate: str) -> CandidateRecord:
        """A candidate of the archive."""
        return self.archive.candidate(candidate)

    def trials(self, stage: str) -> list[TrialRecord]:
        """Trials of a stage, in the order queued."""
        return [trial for trial in self.archive.trials(self.run) if trial.stage == stage]

    def naive(self) -> tuple[CandidateRecord, TrialRecord] | None:
        """The naive engine's candidate and trial, once there is one."""
        trials = self.trials(NAIVE)
        return (self.candidate(trials[0].candidate), trials[0]) if trials else None

    def champion(self) -> CandidateRecord:
        """The candidate of the last kept trial that neither shortlist nor confirmation refused; the
        naive one before any was kept."""
        refused = {
            trial.candidate
            for stage in (SHORTLIST, CONFIRM)
            for trial in self.trials(stage)
            if trial.verdict == "rejected"
        }
        kept = [
            trial
            for stage in (NAIVE, SEARCH)
            for trial in self.trials(stage)
            if trial.verdict == "kept" and trial.candidate not in refused
        ]
        naive = self.trials(NAIVE)[0].candidate
        return self.candidate(kept[-1].candidate if kept else naive)

    def pending(self) -> list[tuple[CandidateRecord, TrialRecord]]:
        """Search trials that were queued or begun and have no verdict."""
        return [
            (self.candidate(trial.candidate), trial)
            for trial in self.trials(SEARCH)
            if trial.state != "finished"
        ]

    def tried_plans(self) -> set[str]:
        """Digests of every plan of the run."""
        return {candidate.plan_sha256 for candidate in self.archive.candidates(self.run)}

    def counts(self) -> Counts:
        """How the search's trials ended."""
        verdicts = [trial.verdict for trial in self.trials(SEARCH)]
        return Counts(
            kept=verdicts.count("kept"),
            rejected=verdicts.count("rejected"),
            void=verdicts.count("void"),
        )

    def finish(self, trial: TrialRecord, kind: Any, headline: str, evidence: Any) -> None:
        """Keep a verdict with its evidence, signed."""
        digest = self.store.put(json.dumps(evidence, ensure_ascii=False).encode())
        self.archive.finish_trial(trial.id, kind, reason=headline, evidence=digest)
        self.sign_finished()

    def sign_finished(self) -> None:
        """Sign every verdict that has no line in the ledger: an earlier process may have been
        killed between the two."""
        if self._ledger is None:
            return
        for trial in self.archive.trials(self.run):
            if trial.state == "finished":
                self._ledger.sign(self.run, trial)

    def evidence(self, trial: TrialRecord) -> Any:
        """What is behind a verdict."""
        assert trial.evidence is not None, "only a finished trial has evidence. This is a bug."
        return json.loads(self.store.get(trial.evidence))

    def spent_seconds(self) -> float:
        """Wall time that earlier processes of this run told of."""
        return max(
            (event.details.get("elapsed_seconds", 0.0) for event in self.archive.events(self.run)),
            default=0.0,
        )

    def last_event(self, kind: str) -> dict[str, Any] | None:
        """Details of the latest event of a kind."""
        held = [event for event in self.archive.events(self.run) if event.kind == kind]
        return held[-1].details if held else None
