"""How a graph is computed: kernel contracts, legality, constants, plans and the edits of plans."""

from enginewright.plan.choices import Choice, candidates_for, matching_windows, regroup
from enginewright.plan.constants import StepSize, group_constants
from enginewright.plan.contracts import Contract, Kernel, Library, load_library
from enginewright.plan.folder import write_candidate
from enginewright.plan.legality import Allowed, check_group, check_plan
from enginewright.plan.naive import Capacity, naive_plan
from enginewright.plan.plan import CachePlan, Group, MemoryPlan, Plan, PoolPlan, StepPlan
from enginewright.plan.signature import group_signature

__all__ = [
    "Allowed",
    "CachePlan",
    "Capacity",
    "Choice",
    "Contract",
    "Group",
    "Kernel",
    "Library",
    "MemoryPlan",
    "Plan",
    "PoolPlan",
    "StepPlan",
    "StepSize",
    "candidates_for",
    "check_group",
    "check_plan",
    "group_constants",
    "group_signature",
    "load_library",
    "matching_windows",
    "naive_plan",
    "regroup",
    "write_candidate",
]
