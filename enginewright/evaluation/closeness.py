"""How near an engine's distributions are to the reference engine's, at short and at long contexts,
over the whole vocabulary: what emitted tokens alone would not show.

The texts are drawn once a campaign, by the judge. The reference engine answers them at the
first promotion and kept; a candidate costs a second or two.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from enginewright.errors import EngineError
from enginewright.evaluation.change_class import (
    BOUNDS,
    ChangeClass,
    Closeness,
    class_of_plan,
    loosest,
    most_allowed,
    read_claim,
)
from enginewright.evaluation.gates import Finding, passed, rejected
from enginewright.evaluation.run_sequences import Floats, run_sequences
from enginewright.evaluation.sandbox import Sandbox
from enginewright.target import Numerics

GATE = "closeness"
TAIL = 48
"""Positions at the end of a sequence whose distributions are compared."""
_DRAWS = 2_000
_Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthReport:
    """Of the sequences of one length."""

    positions: int
    """Positions compared."""
    kl_nats: float
    """Mean divergence of the engine's distribution from the reference engine's."""
    kl_high_nats: float
    """Upper end of its one-sided 95 % interval (bootstrap over positions)."""
    top1_agreement: float
    """Share of positions with the same likeliest token, near ties left out."""
    cosine: float | None
    """Least cosine of an embedding; None for decoders."""

    def to_json(self) -> dict[str, Any]:
        """For evidence."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class ReferenceAnswers:
    """The reference engine and what it answers, computed when first wanted."""

    program: Path
    """The host program."""
    reference: Path
    """Engine folder of the reference engine."""
    checkpoint: Path
    """Folder of the weights."""
    threads: int
    """Threads of every engine."""
    sandbox: Sandbox | None
    """What engines run in."""
    sequences: Mapping[int, Sequence[Sequence[int]]]
    """Token ids by length."""
    is_encoder: bool
    """Whether answers are embeddings."""
    tokens_per_second: float | None = None
    """How fast the reference engine was; None before it ran."""
    _held: dict[tuple[Path, int], list[Floats]] = field(default_factory=dict)

    def of(self, engine: Path, length: int) -> list[Floats]:
        """Answers of an engine to the sequences of one length; the reference engine's are kept.

        Raises: EngineError if it fails.
        """
        key = (engine, length)
        if key in self._held:
            return self._held[key]
        asked = self.sequences[length]
        start = time.monotonic()
        found = run_sequences(
            self.program, engine, self.checkpoint, asked,
            wanted_from=None if self.is_encoder else [max(0, length - TAIL)] * len(asked),
            threads=self.threads, sandbox=self.sandbox,
        )  # fmt: skip
        if engine == self.reference:
            self._held[key] = found
            self.tokens_per_second = length * len(asked) / (time.monotonic() - start)
        return found


def compare_lengths(
    answers: ReferenceAnswers, engine: Path, lengths: Sequence[int]
) -> dict[int, LengthReport]:
    """How near an engine is at each length.

    Raises: EngineError if it fails, or answers other shapes than the reference engine.
    """
    found = {}
    for length in lengths:
        pairs = list(
            zip(answers.of(answers.reference, length), answers.of(engine, length), strict=True)
        )
        for meant, given in pairs:
            if meant.shape != given.shape:
                raise EngineError(
                    f"{engine}: answers {list(given.shape)} to a sequence of {length}; expected "
                    f"{list(meant.shape)}"
                )
        compare = _compare_embeddings if answers.is_encoder else _compare_logits
        found[length] = compare(pairs)
    return found


def is_same_to_the_byte(
    answers: ReferenceAnswers, engine: Path, other: Path, lengths: Sequence[int]
) -> bool:
    """Whether two engines answer the same bytes. Raises: EngineError if one fails."""
    return all(
        mine.tobytes() == theirs.tobytes()
        for length in lengths
        for mine, theirs in zip(answers.of(engine, length), answers.of(other, length), strict=True)
    )


def claimed_class(engine: Path, numerics: Numerics) -> tuple[ChangeClass, Finding | None]:
    """The class that a candidate is held to, and a rejection if its claim cannot stand.

    Without a claim it is what its plan says.
    """
    plan = json.loads((engine / "plan.json").read_text(encoding="utf-8"))
    of_plan = class_of_plan(plan)
    try:
        claim = read_claim(engine) or of_plan
    except ValueError as error:
        return of_plan, rejected(GATE, 0, "overclaimed", str(error))
    most = most_allowed(numerics)
    if loosest(claim, most) != most:
        detail = f"is {claim}; the target allows {most} at most"
        return claim, rejected(GATE, 0, "overclaimed", detail)
    if claim == "reassociated" and of_plan != "reassociated":
        detail = f"claims {claim}, but its plan uses {', '.join(plan['numerics'])}"
        return claim, rejected(GATE, 0, "overclaimed", detail)
    return claim, None


def check_closeness(
    claim: ChangeClass,
    of_plan: ChangeClass,
    reports: Mapping[int, LengthReport],
    numerics: Numerics,
    *,
    is_same: bool | None,
    all_bounds: Mapping[ChangeClass, Closeness] = BOUNDS,
) -> Finding:
    """Whether an engine lives up to its claim.

    `is_same`: whether it answers the champion's bytes; None unless it claims to.
    """
    checked = sum(report.positions for report in reports.values())
    if claim == "bit_exact" and not is_same:
        detail = "claims bit_exact, and answers other bytes than the champion"
        return rejected(GATE, checked, "overclaimed", detail)
    bounds = all_bounds[of_plan if claim == "bit_exact" else claim]
    for length, report in reports.items():
        where = f"at {length} tokens"
        if report.cosine is not None:
            if not report.cosine >= numerics.cosine:
                detail = f"{where} cosine is {report.cosine:.8f}; at least {numerics.cosine:g}"
                return rejected(GATE, checked, "overclaimed", f"{detail} is allowed")
            continue
        if not report.kl_high_nats <= bounds.kl_nats:
            detail = (
                f"claims {claim}; {where} the divergence is {report.kl_nats:.3g} nats (up to "
                f"{report.kl_high_nats:.3g}); at most {bounds.kl_nats:g} is allowed"
            )
            return rejected(GATE, checked, "overclaimed", detail)
        if not report.top1_agreement >= bounds.top1_agreement:
            detail = (
                f"claims {claim}; {where} {report.top1_agreement:.1%} of tokens are the same; at "
                f"least {bounds.top1_agreement:.1%} must be"
            )
            return rejected(GATE, checked, "overclaimed", detail)
    return passed(GATE, checked)


def _compare_logits(pairs: Sequence[tuple[Floats, Floats]]) -> LengthReport:
    divergences, agreements = [], []
    for meant, given in pairs:
        p = special.log_softmax(meant.astype(np.float64), axis=-1)
        q = special.log_softmax(given.astype(np.float64), axis=-1)
        divergence = np.sum(np.exp(p) * (p - q), axis=-1)
        best, chosen = p.argmax(axis=-1), q.argmax(axis=-1)
        rows = np.arange(len(p))
        # Two tokens nearer to each other than the noise of this position may change places.
        is_tie = p[rows, best] - p[rows, chosen] <= np.sqrt(2.0 * np.maximum(divergence, 0.0))
        divergences.append(divergence)
        agreements.append((best == chosen) | is_tie)
    values = np.concatenate(divergences)
    mean, high = _mean_and_high(values)
    return LengthReport(
        positions=len(values), kl_nats=mean, kl_high_nats=high,
        top1_agreement=float(np.concatenate(agreements).mean()), cosine=None,
    )  # fmt: skip


def _compare_embeddings(pairs: Sequence[tuple[Floats, Floats]]) -> LengthReport:
    cosines = []
    for meant, given in pairs:
        first, second = meant.astype(np.float64).ravel(), given.astype(np.float64).ravel()
        scale = float(np.linalg.norm(first) * np.linalg.norm(second))
        cosines.append(float(first @ second) / scale if scale > 0 else -1.0)
    return LengthReport(
        positions=len(pairs), kl_nats=0.0, kl_high_nats=0.0, top1_agreement=1.0,
        cosine=min(cosines),
    )  # fmt: skip


def _mean_and_high(values: _Doubles) -> tuple[float, float]:
    """Mean and the upper end of its one-sided 95 % interval. NaN stays NaN: it is beyond every
    bound."""
    mean = float(values.mean())
    if len(values) < 2 or not np.isfinite(values).all() or np.ptp(values) == 0.0:
        return mean, mean
    interval = stats.bootstrap(
        (values,), np.mean, confidence_level=0.95, alternative="less", n_resamples=_DRAWS,
        method="percentile", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return mean, float(interval.high)
