"""The tactics: each turns a plan into plans that might be better, one idea at a time."""

from enginewright.variation.idea import Tactic
from enginewright.variation.tactics import fusion, kernels, parameters, plans, settings

TACTICS: dict[str, Tactic] = {
    tactic.name: tactic
    for module in (plans, fusion, kernels, parameters, settings)
    for tactic in module.TACTICS
}
"""Every tactic, by name."""

__all__ = ["TACTICS"]
