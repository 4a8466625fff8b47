"""What a candidate claims about its arithmetic, and what each claim must live up to.

The bounds are not a matter of taste: `benchmarks/judge/tolerances.py` measures honest engines of
each class and the cheapest cheats beside them, and the bound lies between the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from enginewright.target import Numerics

ChangeClass = Literal["bit_exact", "reassociated", "precision_changed", "approximate"]
"""From the strictest to the loosest.

- `bit_exact`: every byte as the champion's: threads, pages, prefetch, pool
- `reassociated`: the same sums in another order, in the same precision
- `precision_changed`: something is held or multiplied in a lower precision that the target allows
- `approximate`: something else is computed; no target allows it yet
"""
CHANGE_CLASSES: tuple[ChangeClass, ...] = get_args(ChangeClass)
CLAIM_FILE = "claim.json"
"""In an engine's folder: `{"change": CLASS}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """How far from the reference engine's a distribution may be, at every length."""

    kl_nats: float
    """Most Kullback-Leibler divergence of the mean position, at the upper end of its interval."""
    top1_agreement: float
    """Least share of positions at which the likeliest token is the same, among those where the
    reference engine's lead is not within the divergence itself."""


BOUNDS: dict[ChangeClass, Closeness] = {
    "bit_exact": Closeness(kl_nats=2e-9, top1_agreement=0.99),
    "reassociated": Closeness(kl_nats=2e-9, top1_agreement=0.99),
    "precision_changed": Closeness(kl_nats=0.012, top1_agreement=0.9),
}
"""Of what a target may allow: halfway (in the logarithm) between the farthest honest engine and the
nearest cheat at contexts of 64 tokens and more, see benchmarks/judge/README.md. A bit-exact change
of a champion is as close as its champion: what is asked of it here is what its own plan's precision
asks for."""


def strictest(first: ChangeClass, second: ChangeClass) -> ChangeClass:
    """The stricter of two."""
    return min(first, second, key=CHANGE_CLASSES.index)


def loosest(first: ChangeClass, second: ChangeClass) -> ChangeClass:
    """The looser of two."""
    return max(first, second, key=CHANGE_CLASSES.index)


def most_allowed(numerics: Numerics) -> ChangeClass:
    """The loosest class that a target allows."""
    return "precision_changed" if numerics.allow else "reassociated"


def class_of_plan(plan: dict[str, Any]) -> ChangeClass:
    """What the plan itself says of its arithmetic, against the reference engine's."""
    return "precision_changed" if plan.get("numerics") else "reassociated"


def read_claim(engine: Path) -> ChangeClass | None:
    """The claim in an engine's folder; None if it makes none.

    Raises: ValueError if what it claims is no class.
    """
    try:
        held = json.loads((engine / CLAIM_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"{CLAIM_FILE} cannot be read: {error}") from error
    claim = held.get("change") if isinstance(held, dict) else held
    if claim not in CHANGE_CLASSES:
        raise ValueError(f"{CLAIM_FILE} claims {claim!r}; expected {', '.join(CHANGE_CLASSES)}")
    return claim  # type: ignore[no-any-return]


def write_claim(engine: Path, change: ChangeClass) -> None:
    """Put a claim into an engine's folder."""
    (engine / CLAIM_FILE).write_text(json.dumps({"change": change}) + "\n", encoding="utf-8")
