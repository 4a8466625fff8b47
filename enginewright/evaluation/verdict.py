"""What the judge found.

Only `Kept`, and `Rejected` for being slower or breaking a guard, carry timings: what failed cannot
outrank a result.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

RejectedReason = Literal[
    "not_started",
    "died",
    "timed_out",
    "refused",
    "incomplete",
    "wrong",
    "inconsistent",
    "not_engaged",
    "overclaimed",
    "slower",
    "guard",
]
"""The candidate's fault.

- `not_started`: no readiness in time
- `died`: its process ended
- `timed_out`: a request did not end in time
- `refused`: it answered an error, or no answer that can be read
- `incomplete`: fewer tokens than asked, or another end than asked
- `wrong`: outputs beyond the target's bounds
- `inconsistent`: a request alone and among others differ
- `not_engaged`: another plan runs than the one on trial, or a kernel of it was never called
- `overclaimed`: its arithmetic is not what its change class promises, or the target refuses it
- `slower`: not faster by the smallest effect sought
- `guard`: faster on the whole, but breaks something protected
"""

VoidReason = Literal[
    "contended",
    "physics",
    "same_engine",
    "champion_failed",
    "oracle_failed",
    "unchecked",
    "load_failed",
    "harness_changed",
    "client_bound",
]
"""The measurement's fault: it says nothing about the candidate.

- `contended`: other work on the machine in too many blocks
- `physics`: faster than memory or arithmetic allow
- `same_engine`: both arms have the same fingerprint
- `champion_failed`, `oracle_failed`, `load_failed`: one of the others failed, not the candidate
- `unchecked`: a gate had nothing to check
- `client_bound`: the load generator was too busy to time anything
- `harness_changed`: the judge's own files changed while it judged
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Speed of the candidate over the champion's, from paired blocks."""

    speedup: float
    """Ratio; above 1 is faster."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end of its 95 % interval."""
    blocks: int
    """Valid pairs behind it."""
    log_ratios: tuple[float, ...]
    """Natural logarithm of the ratio of each block, in the order taken."""
    by_scenario: dict[str, float]
    """Ratio of each scenario alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Checked, and faster."""

    comparison: Comparison
    """By how much."""
    measurements: dict[str, dict[str, tuple[float, ...]]]
    """Arm (`champion`, `candidate`) → metric → one value a block."""
    evidence: dict[str, Any]
    """Everything to decide again from: raw samples, seeds, environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The candidate is not better, or is no good."""

    reason: RejectedReason
    """Why."""
    detail: str
    """One line for people, with the values."""
    comparison: Comparison | None
    """Only when it is slower, or breaks a guard."""
    evidence: dict[str, Any]
    """Everything to decide again from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """The measurement was no good; the candidate may be tried again."""

    reason: VoidReason
    """Why."""
    detail: str
    """One line for people, with the values."""
    evidence: dict[str, Any]
    """Everything to decide again from."""


Verdict = Kept | Rejected | Void
"""What a trial ends in."""


def headline(verdict: Verdict) -> str:
    """One line: the kind, the reason and the figures."""
    match verdict:
        case Kept(comparison=held):
            return (
                f"kept: {held.speedup:.3f}x "
                f"({held.low:.3f} to {held.high:.3f}, {held.blocks} blocks)"
            )
        case Rejected(reason=reason, detail=detail):
            return f"rejected: {reason}: {detail}"
        case Void(reason=reason, detail=detail):
            return f"void: {reason}: {detail}"


def verdict_kind(verdict: Verdict) -> Literal["kept", "rejected", "void"]:
    """As the archive writes it."""
    match verdict:
        case Kept():
            return "kept"
        case Rejected():
            return "rejected"
        case Void():
            return "void"


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict with its evidence, ready for `json.dumps`."""
    return {"verdict": verdict_kind(verdict), "headline": headline(verdict), **asdict(verdict)}
