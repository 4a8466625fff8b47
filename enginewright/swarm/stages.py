"""Where the wall time of a run goes, by stage and by candidate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

WORK = (
    *("bring_up", "bar", "calibrate", "build", "kernel_check", "screen", "trial"),
    "converse",
    *("sentinel", "confirm", "deliver"),
)
"""Stages that are the work itself; all other time is the loop's own."""


@dataclass
class Stages:
    """Seconds by stage, and by candidate and stage."""

    total: dict[str, float] = field(default_factory=dict)
    """Wall seconds by stage."""
    by_candidate: dict[str, dict[str, float]] = field(default_factory=dict)
    """Wall seconds by candidate and stage."""
    own_cpu_seconds: float = 0.0
    """Processor time of this process outside the stages."""
    _cpu_mark: float = field(default_factory=time.process_time)

    @contextmanager
    def stage(self, name: str, candidate: str | None = None) -> Iterator[None]:
        """Time the block. Stages do not nest."""
        self.own_cpu_seconds += time.process_time() - self._cpu_mark
        start = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - start
            self._cpu_mark = time.process_time()
            self.total[name] = self.total.get(name, 0.0) + seconds
            if candidate is not None:
                held = self.by_candidate.setdefault(candidate, {})
                held[name] = held.get(name, 0.0) + seconds

    def summary(self, wall_seconds: float) -> dict[str, Any]:
        """Totals, seconds a candidate, and the loop's own share of `wall_seconds` (of this
        process).

        A resumed run tells of the process that finished it.
        """
        work = sum(seconds for name, seconds in self.total.items() if name in WORK)
        own = max(0.0, wall_seconds - work)
        own_cpu = self.own_cpu_seconds + time.process_time() - self._cpu_mark
        per_candidate = {
            name: sum(held.get(name, 0.0) for held in self.by_candidate.values())
            / len(self.by_candidate)
            for name in ("build", "kernel_check", "screen", "trial")
            if self.by_candidate
        }
        return {
            "wall_seconds": wall_seconds,
            "stages": dict(self.total),
            "seconds_per_candidate": per_candidate,
            "own_wall_seconds": own,
            "own_cpu_seconds": own_cpu,
            "own_share": own / wall_seconds if wall_seconds > 0 else None,
        }
