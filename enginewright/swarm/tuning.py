"""The tuner as the loop's proposer: its memory of a run is the archive's."""

from __future__ import annotations

from enginewright.plan import Library, Plan
from enginewright.retention.memory import Memory
from enginewright.swarm.agents.open_shelf import offered_library
from enginewright.swarm.plan_timer import TimeStep
from enginewright.swarm.proposer import Proposal
from enginewright.swarm.run import Run
from enginewright.swarm.run_state import SEARCH
from enginewright.swarm.screener import MicroScreener
from enginewright.swarm.warm_start import hardware_key, warm_plan
from enginewright.swarm.workbench import Finding, Say
from enginewright.variation.idea import Context, Idea, KnownChoices
from enginewright.variation.tuner import LEAST_GAIN, Belief, Tuner

SCREEN_SHARE = 0.15
"""Share of the wall time left that one round of screening may take…"""
MOST_SCREEN_SECONDS = 60.0
"""…and the most it takes."""


class Tuning:
    """Warm start or big step first; then what the tuner screens and combines."""

    def __init__(self, run: Run, time_step: TimeStep, memory: Memory | None) -> None:
        """`memory`: where a warm start begins; None for a cold one."""
        self._run = run
        self._time_step = time_step
        self._memory = memory
        # The run's own number: the same run draws the same ideas.
        self._tuner = Tuner(seed=int(run.state.run.lstrip("r"), 16))
        self._tuner.seen |= run.state.tried_plans()
        self._choices: KnownChoices = {}
        self._offered: set[str] = set()
        for event in run.state.archive.events(run.state.run):
            if event.kind in ("screened", "screened_out"):
                self._remember(event.details["tactic"], event.details["speedup"])
                self._tuner.seen.add(event.details["plan"])

    def propose(self, champion: Plan, say: Say) -> Proposal | None:
        """The next candidate; None if no tactic has an idea left, or no time is."""
        context = self._context(champion)
        if self._run.state.champion().parent is None:
            first = self._warm(say) or self._tuner.first(context)
            if first is not None:
                return _proposal(first)
        while self._run.journal.budget.why_stop() is None:
            left = self._run.journal.budget.left_seconds
            screener = MicroScreener(
                self._run, self._time_step, seconds=min(SCREEN_SHARE * left, MOST_SCREEN_SECONDS)
            )
            idea = self._tuner.combine(context, screener, say)
            if idea is not None:
                return _proposal(idea)
            if screener.has_time():
                return None
        return None

    def learn(self, proposal: Proposal, finding: Finding) -> None:
        """The tuner never proposes a plan twice; verdicts are read from the archive."""
        self._tuner.seen.add(proposal.plan.sha256)

    def _warm(self, say: Say) -> Idea | None:
        if self._memory is None:
            return None
        naive = self._run.state.naive()
        assert naive is not None, "the bring-up comes first. This is a bug."
        plan = warm_plan(self._run.state.plan(naive[0]), self._run.subject, self._memory)
        if plan is None or plan.sha256 in self._tuner.seen:
            return None
        say("memory knows kinds of groups of this model on this hardware: a warm start")
        return Idea(
            make=lambda: plan,
            tactic="warm_start",
            hypothesis="what won for the same kinds of groups on this hardware wins again",
            predicted_effect=5.0,
        )

    def _context(self, champion: Plan) -> Context:
        state, subject = self._run.state, self._run.subject
        naive = state.naive()
        assert naive is not None, "the bring-up comes first. This is a bug."
        kept = [
            state.plan(state.candidate(trial.candidate))
            for trial in state.trials(SEARCH)
            if trial.verdict == "kept"
        ]
        return Context(
            graph=subject.graph,
            library=self._library(),
            allowed=subject.allowed,
            plan=champion,
            naive=state.plan(naive[0]),
            kept=tuple(plan for plan in kept if plan.sha256 != champion.sha256),
            cores=subject.machine.cores,
            rank=self._rank(),
            known=self._choices,
        )

    def _library(self) -> Library:
        """The kernels on offer; which are legal where is worked out anew when there is another."""
        shelf = self._run.shelf
        if shelf is None:
            return self._run.subject.library
        library = offered_library(self._run.state, shelf)
        if library.kernels.keys() != self._offered:
            self._choices.clear()
            self._offered = set(library.kernels)
        return library

    def _rank(self) -> dict[str, float]:
        """How often each kernel ended in a confirmed champion on this hardware."""
        if self._memory is None:
            return {}
        key = hardware_key(self._run.subject)
        rank: dict[str, float] = {}
        for lesson in self._memory.lessons():
            if lesson.hardware == key and lesson.kernel:
                rank[lesson.kernel] = rank.get(lesson.kernel, 0.0) + lesson.confirmations
        return rank

    def _remember(self, tactic: str, speedup: float | None) -> None:
        belief = self._tuner.beliefs.setdefault(tactic, Belief())
        belief.proposed += 1
        if speedup is not None:
            belief.screened += 1
            if speedup >= LEAST_GAIN:
                belief.helped += 1
                belief.gain *= speedup


def _proposal(idea: Idea) -> Proposal:
    return Proposal(
        plan=idea.plan,
        tactic=idea.tactic,
        hypothesis=idea.hypothesis,
        predicted_effect=idea.predicted_effect,
    )
