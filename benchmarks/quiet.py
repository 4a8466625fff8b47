"""Blocks that count only if the machine was ours while they ran."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from enginewright.evaluation.contention import Contention, CpuWindow
from enginewright.evaluation.judge_settings import JudgeSettings

Found = dict[str, dict[str, float]]
"""What a block gives: by arm, by quantity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks that count."""

    samples: dict[str, dict[str, list[float]]]
    """By arm, by quantity: one value a block."""
    contention: list[dict[str, float | None]]
    """Shares of others and of the host, by block."""
    contended: int
    """Blocks that others disturbed, and that therefore do not count."""


def run_blocks(
    measure: Callable[[int], Found], *, blocks: int, is_contention_allowed: bool
) -> Blocks:
    """Call `measure` with rising numbers until `blocks` undisturbed ones are there.

    A block is disturbed when other processes took more of the processors, or the host more of the
    machine, than the judge of trials allows: a rule that looks at no result.

    Raises: SystemExit if more blocks were disturbed than were wanted.
    """
    samples: dict[str, dict[str, list[float]]] = {}
    held: list[dict[str, float | None]] = []
    contended = 0
    while len(held) < blocks:
        before = _seconds_of_children()
        window = CpuWindow()
        found = measure(len(held) + contended)
        # Every arm has ended and was waited for: what it used is known.
        contention = window.close(known_cpu_seconds=_seconds_of_children() - before)
        if is_disturbed(contention) and not is_contention_allowed:
            contended += 1
            print(f"a block does not count: {in_words(contention)}", file=sys.stderr)
            if contended > blocks:
                raise SystemExit(
                    f"error: {contended} blocks were disturbed\nhint: let nothing else run, or "
                    "pass --allow-contention for figures that are not to be quoted"
                )
            continue
        for arm, quantities in found.items():
            for quantity, value in quantities.items():
                samples.setdefault(arm, {}).setdefault(quantity, []).append(value)
        held.append(asdict(contention))
        print(f"block {len(held)} of {blocks}: {in_words(contention)}", file=sys.stderr)
    return Blocks(samples=samples, contention=held, contended=contended)


def is_disturbed(contention: Contention) -> bool:
    """By the limits of the judge of trials."""
    limits = JudgeSettings()
    other = contention.other_share or 0.0
    return other > limits.other_share_limit or contention.steal_share > limits.steal_share_limit


def in_words(contention: Contention) -> str:
    """For people."""
    return (
        f"others took {contention.other_share or 0.0:.1%} of the processors, the host "
        f"{contention.steal_share:.1%}"
    )


def _seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system
