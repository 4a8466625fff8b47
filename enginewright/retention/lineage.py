"""Who came from whom."""

from __future__ import annotations

from collections.abc import Sequence

from enginewright.errors import ArchiveError
from enginewright.retention.records import CandidateRecord


def lineage(candidates: Sequence[CandidateRecord], candidate: str) -> list[CandidateRecord]:
    """The candidate's ancestors from the first one, and itself last.

    Raises: ArchiveError if one is absent, or if the chain turns back on itself.
    """
    by_id = {record.id: record for record in candidates}
    chain: list[CandidateRecord] = []
    name: str | None = candidate
    while name is not None:
        if name not in by_id:
            raise ArchiveError(f"candidate `{name}` is not in the archive")
        if any(record.id == name for record in chain):
            raise ArchiveError(f"candidate `{name}` is its own ancestor")
        chain.append(by_id[name])
        name = by_id[name].parent
    return chain[::-1]
