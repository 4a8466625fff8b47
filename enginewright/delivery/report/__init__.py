"""One page that tells what a run found."""

from __future__ import annotations

from enginewright.delivery.report.finished_run import report_finished_run
from enginewright.delivery.report.from_run import material_from_run
from enginewright.delivery.report.material import (
    Acceptance,
    CandidateEntry,
    EngineFigures,
    Estimate,
    GroupTime,
    JudgeTest,
    ReportMaterial,
    SameAgainstSame,
    SelectionGap,
    SentinelEntry,
    TacticSummary,
    TrialEntry,
)
from enginewright.delivery.report.page import render_report, write_report
from enginewright.delivery.report.profile import ProfiledEngine, profile_scenarios

__all__ = [
    "Acceptance",
    "CandidateEntry",
    "EngineFigures",
    "Estimate",
    "GroupTime",
    "JudgeTest",
    "ProfiledEngine",
    "ReportMaterial",
    "SameAgainstSame",
    "SelectionGap",
    "SentinelEntry",
    "TacticSummary",
    "TrialEntry",
    "material_from_run",
    "profile_scenarios",
    "render_report",
    "report_finished_run",
    "write_report",
]
