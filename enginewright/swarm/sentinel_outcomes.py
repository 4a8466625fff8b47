"""What became of the candidates whose verdict is known: counted here, and nowhere else, for the
tables, for `--json` and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scipy import stats

from enginewright.retention import Archive, TrialRecord

SENTINEL = "sentinel"
"""Stage of their trials."""
Kind = Literal["wrong_output", "known_slow", "clone", "known_fast"]
KINDS: tuple[Kind, ...] = ("wrong_output", "known_slow", "clone", "known_fast")
"""In the order they are run: the quickest to judge first."""
PREFIX = "sentinel_"
"""What their candidates' tactics begin with."""
EXPECTED: dict[Kind, str] = {
    "wrong_output": "rejected: wrong",
    "known_slow": "rejected: slower",
    "clone": "not kept",
    "known_fast": "kept",
}
"""What an honest judge says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the judge did on one sentinel."""

    kind: Kind
    """Which."""
    expected: str
    """What an honest judge says."""
    verdict: str
    """What it said."""
    as_expected: bool | None
    """Whether it did; None for a void, which says nothing."""

    def to_json(self) -> dict[str, Any]:
        """For `--json` and the report."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FalsePromotion:
    """Clones that were promoted, of all that were judged."""

    promoted: int
    """Clones kept: each of them wrongly."""
    clones: int
    """Clones judged; a void measured nothing and is not among them."""
    low: float
    """Lower end of the 95 % interval of the rate (Clopper & Pearson 1934)."""
    high: float
    """Upper end: 1 while no clone was judged."""

    @property
    def rate(self) -> float | None:
        """Share of clones promoted; None while none was judged."""
        return self.promoted / self.clones if self.clones else None

    def to_json(self) -> dict[str, Any]:
        """For `--json` and the report."""
        return {**asdict(self), "rate": self.rate}


def sentinel_kind(tactic: str) -> Kind | None:
    """Which sentinel a candidate's tactic names; None for any other candidate."""
    return next((kind for kind in KINDS if tactic == f"{PREFIX}{kind}"), None)


def outcomes(archive: Archive, run: str) -> list[Outcome]:
    """Of every sentinel of a run that has a verdict, in the order queued."""
    return [
        _outcome(kind, trial)
        for kind, trial in _sentinels(archive, run)
        if trial.state == "finished"
    ]


def false_promotion(archive: Archive) -> FalsePromotion:
    """Over all runs of an archive: how often the judge promotes what is the same engine."""
    verdicts = [
        trial.verdict
        for run in archive.runs()
        for kind, trial in _sentinels(archive, run.id)
        if kind == "clone" and trial.verdict in ("kept", "rejected")
    ]
    promoted, clones = verdicts.count("kept"), len(verdicts)
    if clones == 0:
        return FalsePromotion(promoted=0, clones=0, low=0.0, high=1.0)
    interval = stats.binomtest(promoted, clones).proportion_ci(
        confidence_level=0.95, method="exact"
    )
    return FalsePromotion(
        promoted=promoted, clones=clones, low=float(interval.low), high=float(interval.high)
    )


def false_promotion_words(held: Mapping[str, Any]) -> str:
    """One line for people, from what `FalsePromotion.to_json` gave."""
    if not held["clones"]:
        return "no clone was judged in this archive yet: nothing is known of false promotions"
    return (
        f"{held['promoted']} of {held['clones']} clones in this archive "
        f"(95 %: {100 * held['low']:.0f} to {100 * held['high']:.0f} %)"
    )


def _sentinels(archive: Archive, run: str) -> list[tuple[Kind, TrialRecord]]:
    tactics = {held.id: held.tactic for held in archive.candidates(run)}
    return [
        (kind, trial)
        for trial in archive.trials(run)
        if trial.stage == SENTINEL and (kind := sentinel_kind(tactics[trial.candidate])) is not None
    ]


def _outcome(kind: Kind, trial: TrialRecord) -> Outcome:
    headline = trial.reason or ""
    as_expected: bool | None = None
    if trial.verdict != "void":
        match kind:
            case "clone":
                as_expected = trial.verdict == "rejected"
            case "known_fast":
                as_expected = trial.verdict == "kept"
            case "known_slow":
                as_expected = headline.startswith(("rejected: slower", "rejected: guard"))
            case "wrong_output":
                as_expected = headline.startswith("rejected: wrong")
    return Outcome(kind=kind, expected=EXPECTED[kind], verdict=headline, as_expected=as_expected)
