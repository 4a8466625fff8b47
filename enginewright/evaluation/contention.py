"""Who else used the processors while something was timed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """Use of the cores that this process may use, over one window."""

    seconds: float
    """Length of the window."""
    other_share: float | None
    """Share of the cores' time spent by anything but what was measured and what measured it; None
    if the measured process is not known, so that it cannot be told from others."""
    steal_share: float
    """Share of the cores' time that the host took away."""


class CpuWindow:
    """Opened when the timing begins, closed when it ends."""

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        self._busy, self._steal = _used_seconds(self._cores)
        self._own = time.thread_time()
        self._start = time.monotonic()

    def close(self, *, known_cpu_seconds: float | None) -> Contention:
        """`known_cpu_seconds` is the processor time of engine and load generator in the window;
        None if it is not known."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        busy, steal = _used_seconds(self._cores)
        capacity = seconds * len(self._cores)
        other_share = None
        if known_cpu_seconds is not None:
            own = time.thread_time() - self._own + known_cpu_seconds
            # The kernel counts in ticks, so that an idle machine may come out below zero.
            other_share = max(0.0, busy - self._busy - own) / capacity
        return Contention(
            seconds=seconds,
            other_share=other_share,
            steal_share=(steal - self._steal) / capacity,
        )


def _used_seconds(cores: set[int]) -> tuple[float, float]:
    """Seconds since start that the cores were busy, and that were stolen from them."""
    busy = steal = 0
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _idle, _wait, irq, soft_irq, stolen = map(int, fields[:8])
            busy += user + nice + system + irq + soft_irq
            steal += stolen
    return busy / _TICKS_PER_SECOND, steal / _TICKS_PER_SECOND
