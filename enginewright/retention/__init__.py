"""What happened: runs, candidates and trials in an archive; files by content; the frontier."""

from enginewright.retention.archive import Archive
from enginewright.retention.frontier import Point, frontier
from enginewright.retention.ledger import Flaw, SignedLedger, check_ledger, ledger_of, open_ledger
from enginewright.retention.lineage import lineage
from enginewright.retention.records import CandidateRecord, Event, RunRecord, TrialRecord
from enginewright.retention.store import Store

__all__ = [
    "Archive",
    "CandidateRecord",
    "Event",
    "Flaw",
    "Point",
    "RunRecord",
    "SignedLedger",
    "Store",
    "TrialRecord",
    "check_ledger",
    "frontier",
    "ledger_of",
    "lineage",
    "open_ledger",
]
