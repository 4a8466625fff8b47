"""How much a run may still spend."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds from an arbitrary start, never backwards."""

_LEAST_RESERVE_SHARE = 0.1
"""Share of the wall time kept for confirmation and delivery, whatever was measured."""

_LEAP_SHARE = 0.3
"""A trial between fast engines takes about this share of one against the naive engine."""


class Budget:
    """Wall time and trials of one run, over all processes that worked on it."""

    def __init__(
        self,
        *,
        wall_seconds: float,
        trials: int,
        clock: Clock = time.monotonic,
    ) -> None:
        """Nothing is spent yet; the clock starts now."""
        self.wall_seconds = wall_seconds
        self.trials = trials
        self._spent_seconds = 0.0
        self._spent_trials = 0
        self._clock = clock
        self._start = clock()
        self._longest_trial = 0.0
        self._longest_sentinel = 0.0
        self._reserve = _LEAST_RESERVE_SHARE * wall_seconds

    @property
    def elapsed_seconds(self) -> float:
        """Wall time of the run so far."""
        return self._spent_seconds + self._clock() - self._start

    @property
    def left_seconds(self) -> float:
        """Wall time left, never below 0."""
        return max(0.0, self.wall_seconds - self.elapsed_seconds)

    @property
    def left_trials(self) -> int:
        """Whole-engine trials left."""
        return max(0, self.trials - self._spent_trials)

    @property
    def reserve_seconds(self) -> float:
        """Wall time that the search leaves for confirmation and delivery."""
        return self._reserve

    def add_spent(self, *, seconds: float, trials: int) -> None:
        """What earlier processes of the run used."""
        self._spent_seconds += seconds
        self._spent_trials += trials

    def charge_trial(self, seconds: float, *, is_leap: bool = False) -> None:
        """A candidate was built and judged, or failed: one trial. `is_leap`: against the naive
        engine, which is so slow that it says little of the trials to come."""
        self._spent_trials += 1
        typical = _LEAP_SHARE * seconds if is_leap else seconds
        self._longest_trial = max(self._longest_trial, typical)

    def charge_sentinel(self, seconds: float) -> None:
        """A sentinel was judged: none of the search's trials."""
        self._longest_sentinel = max(self._longest_sentinel, seconds)

    def has_time_for_sentinel(self) -> bool:
        """Whether one as long as the longest trial so far ends before the reserve begins."""
        longest = max(self._longest_sentinel, self._longest_trial)
        return self.left_seconds > self._reserve + longest

    def release(self, seconds: float) -> None:
        """A part of what was kept for the end may be used now."""
        self._reserve = max(0.0, self._reserve - seconds)

    def keep_for_the_end(self, seconds: float) -> None:
        """Leave at least this much for confirmation and delivery, as far as the budget has it."""
        self._reserve = min(max(self._reserve, seconds), 0.4 * self.wall_seconds)

    def why_stop(self) -> str | None:
        """Why no further trial may begin, or None.

        A trial begins only if one as long as the longest so far would end before the reserve.
        """
        if self.left_trials == 0:
            return f"the budget of {self.trials} trials is spent"
        if self.left_seconds <= self._reserve + self._longest_trial:
            return (
                f"{self.left_seconds:.0f} s of {self.wall_seconds:.0f} s are left; confirmation "
                f"needs {self._reserve:.0f} s and a trial {self._longest_trial:.0f} s"
            )
        return None
