"""How the judge was tested, gathered from the archive for the report."""

from __future__ import annotations

import json
import math
from typing import Any

from enginewright.delivery.report.material import (
    Estimate,
    JudgeTest,
    SameAgainstSame,
    SelectionGap,
    SentinelEntry,
    TrialEntry,
)
from enginewright.retention import Archive, Event, Store
from enginewright.swarm.run_state import SEARCH, SHORTLIST
from enginewright.swarm.sentinel_outcomes import (
    false_promotion,
    false_promotion_words,
    outcomes,
)

WHOLE_SEARCH = "whole search"
"""Name of the gap of all steps together."""


def judge_test(
    archive: Archive,
    store: Store,
    run: str,
    *,
    events: list[Event],
    trials: tuple[TrialEntry, ...],
    confirmed: Estimate | None,
) -> JudgeTest | None:
    """The A/A, the sentinels, the false promotions and the gap between selection and confirmation.

    `confirmed` is the confirmed speed of the champion over the naive engine. None if the run came
    to none of these.

    Raises: ArchiveError if evidence is damaged.
    """
    calibrated = [event.details for event in events if event.kind == "calibrated"]
    sentinels = tuple(SentinelEntry(**held.to_json()) for held in outcomes(archive, run))
    gaps = (*_steps(store, trials), *_whole(trials, confirmed))
    if not (calibrated or sentinels or gaps):
        return None
    return JudgeTest(
        same=_same(calibrated[-1]) if calibrated else None,
        sentinels=sentinels,
        false_promotion=false_promotion_words(false_promotion(archive).to_json()),
        gaps=gaps,
    )


def _same(held: dict[str, Any]) -> SameAgainstSame:
    return SameAgainstSame(
        ratio=(held["low"], held["high"]),
        blocks=len(held["log_ratios"]),
        sd=held["sd"],
        autocorrelation=held["autocorrelation"],
        detectable=held["detectable"],
        holds_one=held["holds_one"],
    )


def _steps(store: Store, trials: tuple[TrialEntry, ...]) -> list[SelectionGap]:
    """Steps whose pair stood side by side in the shortlist."""
    listed = [held for held in trials if held.stage == SHORTLIST and held.evidence is not None]
    if not listed:
        return []
    told = json.loads(store.get(str(listed[0].evidence))).get("shortlist") or {"gaps": []}
    return [
        SelectionGap(
            name=gap["tactic"],
            selected=Estimate(**gap["selected"], unit="x"),
            confirmed=Estimate(**gap["confirmed"], unit="x"),
        )
        for gap in told["gaps"]
    ]


def _whole(trials: tuple[TrialEntry, ...], confirmed: Estimate | None) -> list[SelectionGap]:
    """What the search saw of all its steps together beside the confirmation. Trials later taken
    back by shortlist or confirmation do not count."""
    refused = {
        held.candidate
        for held in trials
        if held.stage in (SHORTLIST, "confirm") and held.verdict == "rejected"
    }
    kept = [
        held.effect
        for held in trials
        if held.stage == SEARCH and held.verdict == "kept" and held.candidate not in refused
    ]
    effects = [held for held in kept if held is not None]
    if confirmed is None or not effects or len(effects) < len(kept):
        return []
    product = math.prod(held.value for held in effects)
    alone = effects[0] if len(effects) == 1 else None
    selected = Estimate(
        value=product,
        # Intervals of several trials on different champions have no common one.
        low=alone.low if alone else None,
        high=alone.high if alone else None,
        unit="x",
    )
    return [SelectionGap(name=WHOLE_SEARCH, selected=selected, confirmed=confirmed)]
