"""How a plan may be made better: plans from plans."""

from enginewright.variation.big_step import big_step

__all__ = ["big_step"]
