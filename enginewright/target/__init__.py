"""The target: what the user asks for, and the machine it is asked of."""

from enginewright.target.agents import Agent, AgentLimits, Prices
from enginewright.target.choose_agents import choose_agents
from enginewright.target.criteria import check_possible, known_metrics
from enginewright.target.hardware import Machine, probe_machine
from enginewright.target.load import json_schema, load_target
from enginewright.target.metric_names import METRICS, MetricRule, metric_rule
from enginewright.target.records import (
    Baseline,
    Budget,
    Criterion,
    Hardware,
    LoadedTarget,
    Model,
    Numerics,
    Scenario,
    Target,
    Workload,
    threads_for,
)
from enginewright.target.write import write_target

__all__ = [
    "METRICS",
    "Agent",
    "AgentLimits",
    "Baseline",
    "Budget",
    "Criterion",
    "Hardware",
    "LoadedTarget",
    "Machine",
    "MetricRule",
    "Model",
    "Numerics",
    "Prices",
    "Scenario",
    "Target",
    "Workload",
    "check_possible",
    "choose_agents",
    "json_schema",
    "known_metrics",
    "load_target",
    "metric_rule",
    "probe_machine",
    "threads_for",
    "write_target",
]
