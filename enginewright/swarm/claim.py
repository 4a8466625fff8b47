"""What a candidate claims about its arithmetic, from what its plan changes of its parent's."""

from __future__ import annotations

from enginewright.evaluation.change_class import ChangeClass
from enginewright.plan import Plan

_HARMLESS = ("threads", "pool", "memory")
"""Fields that decide where and when things are computed, not what: the kernel contract asks for the
same bytes on any number of threads."""


def claim_of(plan: Plan, parent: Plan) -> ChangeClass:
    """The class of a plan against the one that it was made from."""
    as_parent = plan.model_copy(update={name: getattr(parent, name) for name in _HARMLESS})
    if as_parent.model_dump() == parent.model_dump():
        return "bit_exact"
    return "precision_changed" if plan.numerics else "reassociated"
