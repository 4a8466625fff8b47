"""How the judge judges: everything that can change a verdict, in one record that evidence keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from enginewright.evaluation.statistics import IntervalName, Looks


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Rules of a trial."""

    looks: Looks = field(default_factory=Looks)
    """When it may be decided, and at which error rates."""
    interval: IntervalName = "hierarchical/1"
    """What makes the interval of the speed-up."""
    smallest_effect: float = 0.005
    """Speed-up below which a candidate is not worth keeping: 0.005 is half a per cent."""
    guard_slowdown: float = 0.05
    """Largest slow-down of a single scenario that a faster whole may cost."""
    audit_tokens: int = 600
    """Positions that the reference engine computes to check the outputs of one arm; at least one
    sequence of each scenario is checked whatever it takes."""
    together_tokens: int = 600
    """Most positions of requests that are sent again all at once."""
    physics_tolerance: float = 0.9
    """Share of the bound on time below which a measurement is taken for impossible."""
    other_share_limit: float = 0.08
    """Share of the processors that others may use during a pass."""
    steal_share_limit: float = 0.03
    """Share of the processors' time that the host may take from this machine during a pass."""
    load_share_limit: float = 0.5
    """Share of one processor that the load generator may take."""
    pass_seconds: float = 1.2
    """Timed work of a pass that is worth the start of a process: fast engines are sent more
    requests from the second block on."""
    most_rounds: int = 4
    """Most times that the workload's requests are multiplied for that."""
    repeated_blocks: int = 6
    """Blocks that may be repeated because they were contended."""
    closeness_lengths: tuple[int, ...] = (64, 256)
    """Tokens of the texts at whose ends distributions are compared before a promotion; empty
    compares none."""
    closeness_long: int = 1024
    """Tokens of the longest text, compared in the confirmation: as many of them as engine, model
    and time allow."""
    closeness_seconds: float = 60.0
    """Time that the reference engine may take for the longest text."""
    bar_blocks: int = 3
    """Passes of the naive engine and of each baseline before the search."""
    confirm_blocks: int = 8
    """Passes of each arm in the confirmation."""
    request_timeout_seconds: float = 120.0
    """Longest time of one request."""

    def __post_init__(self) -> None:
        if self.interval not in get_args(IntervalName):
            raise ValueError(
                f"interval is {self.interval!r}; expected one of {get_args(IntervalName)}"
            )
        if not 0.0 < self.smallest_effect < 1.0 or not 0.0 < self.guard_slowdown < 1.0:
            raise ValueError("smallest_effect and guard_slowdown lie between 0 and 1")
        if self.audit_tokens < 1 or self.together_tokens < 1 or self.repeated_blocks < 0:
            raise ValueError("audit_tokens and together_tokens are at least 1")
        if self.pass_seconds < 0 or self.most_rounds < 1:
            raise ValueError("pass_seconds is at least 0, most_rounds at least 1")


def settings_to_json(settings: JudgeSettings) -> dict[str, Any]:
    """Ready for `json.dumps`."""
    return asdict(settings)


def settings_from_json(held: dict[str, Any]) -> JudgeSettings:
    """The rules that `settings_to_json` wrote. Rules that older evidence does not name are those
    of its time, not today's.

    Raises: KeyError, TypeError, ValueError if a rule is missing, unknown or impossible.
    """
    rules = {**_OLD_RULES, **held}
    looks = Looks(**{**_OLD_LOOKS, **_with_tuples(rules.pop("looks"))})
    return JudgeSettings(looks=looks, **_with_tuples(rules))


_OLD_RULES = {"interval": "blocks/1"}
_OLD_LOOKS = {"batch_blocks": 1}
"""How trials were decided before there were such rules."""


def _with_tuples(held: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in held.items()
    }
