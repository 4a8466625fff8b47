"""The tuner: picks tactics by what they gave so far, screens their ideas, and combines what helps.

A bandit with Beta beliefs (Thompson sampling; Thompson 1933) over tactics, with a floor under every
tactic's chance. An idea is screened by timing the engine's own groups, interleaved with the plan it
came from; what is clearly faster is kept at once as the base of the next idea, and the sum of such
steps earns one whole-engine trial. Whether it is kept is the judge's to say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from enginewright.errors import PlanError
from enginewright.plan import check_plan
from enginewright.variation.idea import Context, Idea
from enginewright.variation.tactics import TACTICS

FLOOR = 0.1
"""Share of the draws that ignore beliefs, so that no tactic is given up."""
LEAST_GAIN = 1.01
"""Screened speed-up below which an idea is not worth a place in a candidate."""


class Screener(Protocol):
    """Times plans without judging them."""

    def speedup(self, base: Idea | None, idea: Idea, context: Context) -> float | None:
        """Speed of the idea's plan over the context's plan, from interleaved timings of their
        groups; None if it cannot be built or run."""

    def has_time(self) -> bool:
        """Whether another idea may be screened for this candidate."""


@dataclass(slots=True)
class Belief:
    """What a tactic gave."""

    proposed: int = 0
    """Ideas drawn."""
    screened: int = 0
    """Ideas timed."""
    helped: int = 0
    """Ideas that were clearly faster."""
    gain: float = 1.0
    """Product of the speed-ups that helped, as screened."""


@dataclass(slots=True)
class Tuner:
    """Proposes candidates. The same seed, screener and history give the same ideas."""

    seed: int
    """Names the random stream."""
    beliefs: dict[str, Belief] = field(default_factory=dict)
    """By tactic."""
    seen: set[str] = field(default_factory=set)
    """Digests of plans that were screened or tried."""
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def first(self, context: Context) -> Idea | None:
        """The big step, unless it was tried."""
        for idea in TACTICS["big_step"].propose(context):
            if self._is_new(idea, context):
                self._belief("big_step").proposed += 1
                return idea
        return None

    def combine(
        self, context: Context, screener: Screener, say: Callable[[str], None]
    ) -> Idea | None:
        """A candidate of all ideas that helped, one on top of the other; None if none did."""
        taken: list[tuple[Idea, float]] = []
        base = context
        spent: set[str] = set()
        while screener.has_time():
            idea = self._draw(base, spent)
            if idea is None:
                break
            speedup = screener.speedup(taken[-1][0] if taken else None, idea, base)
            belief = self._belief(idea.tactic)
            if speedup is None:
                say(f"screen: {idea.tactic}: does not build or run: {idea.hypothesis}")
                continue
            belief.screened += 1
            say(f"screen: {idea.tactic} {speedup:.3f}x: {idea.hypothesis}")
            if speedup >= LEAST_GAIN:
                belief.helped += 1
                belief.gain *= speedup
                taken.append((idea, speedup))
                base = replace(base, plan=idea.plan)
        return _combined(taken)

    def _draw(self, context: Context, spent: set[str]) -> Idea | None:
        """An idea that was never seen, by a tactic that promises most now."""
        while True:
            names = [name for name in TACTICS if name not in spent and name != "big_step"]
            if not names:
                return None
            name = self._pick(names)
            idea = self._first_new(TACTICS[name].propose(context), context)
            if idea is None:
                spent.add(name)
                continue
            self.seen.add(idea.plan.sha256)
            self._belief(name).proposed += 1
            return idea

    def _first_new(self, ideas: list[Idea], context: Context) -> Idea | None:
        """A new one of the ideas; those that turn out old or illegal are dropped on the way."""
        left = list(ideas)
        while left:
            # The first ideas of a tactic are its best guesses; later ones get their turn.
            idea = left.pop(min(int(self._random.expovariate(0.5)), len(left) - 1))
            if self._is_new(idea, context):
                return idea
        return None

    def _pick(self, names: list[str]) -> str:
        if self._random.random() < FLOOR:
            return self._random.choice(names)

        def promise(name: str) -> float:
            belief = self._belief(name)
            failed = belief.screened - belief.helped
            return self._random.betavariate(1 + belief.helped, 1 + failed)

        return max(names, key=promise)

    def _is_new(self, idea: Idea, context: Context) -> bool:
        digest = None
        try:
            digest = idea.plan.sha256
            if digest in self.seen or digest == context.plan.sha256:
                return False
            check_plan(idea.plan, context.graph, context.library, context.allowed)
        except PlanError:
            # A tactic may overreach (a cache form that a kernel lacks): such a plan is no idea.
            if digest is not None:
                self.seen.add(digest)
            return False
        return True

    def _belief(self, name: str) -> Belief:
        return self.beliefs.setdefault(name, Belief())


def _combined(taken: list[tuple[Idea, float]]) -> Idea | None:
    if not taken:
        return None
    last = taken[-1][0]
    predicted = 1.0
    for _, speedup in taken:
        predicted *= speedup
    if len(taken) == 1:
        return replace(last, predicted_effect=predicted)
    steps = "; ".join(
        f"{idea.tactic} ({speedup:.3f}x): {idea.hypothesis}" for idea, speedup in taken
    )
    return replace(
        last,
        tactic="combined",
        hypothesis=f"{len(taken)} screened steps together: {steps}",
        predicted_effect=predicted,
    )
