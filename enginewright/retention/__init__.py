"""What happened: runs, candidates and trials in an archive; files by content; the frontier."""

from enginewright.retention.archive import Archive
from enginewright.retention.frontier import Point, frontier
from enginewright.retention.lineage import lineage
from enginewright.retention.records import CandidateRecord, Event, RunRecord, TrialRecord
from enginewright.retention.store import Store

__all__ = [
    "Archive",
    "CandidateRecord",
    "Event",
    "Point",
    "RunRecord",
    "Store",
    "TrialRecord",
    "frontier",
    "lineage",
]
