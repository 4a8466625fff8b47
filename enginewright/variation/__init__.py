"""How a plan may be made better: plans from plans, and who picks among them."""

from enginewright.variation.big_step import big_step
from enginewright.variation.idea import Context, Idea, Tactic
from enginewright.variation.tactics import TACTICS
from enginewright.variation.tuner import Belief, Screener, Tuner

__all__ = ["TACTICS", "Belief", "Context", "Idea", "Screener", "Tactic", "Tuner", "big_step"]
