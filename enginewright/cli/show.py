"""`enginewright show`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_fields, print_json
from enginewright.cli.places import open_archive
from enginewright.retention import lineage


def show(
    trial: Annotated[str, typer.Argument(help="A trial, as `log` names it.")],
    as_json: JsonFlag = False,
) -> None:
    """Show one trial: hypothesis, prediction, lineage, verdict and evidence."""
    archive = open_archive()
    record = archive.trial(trial)
    candidate = archive.candidate(record.candidate)
    ancestors = [held.id for held in lineage(archive.candidates(candidate.run), candidate.id)]
    if as_json:
        print_json({"trial": asdict(record), "candidate": asdict(candidate), "lineage": ancestors})
        return
    print_fields(
        {
            "trial": record.id,
            "stage": record.stage,
            "state": record.state,
            "tactic": candidate.tactic,
            "hypothesis": candidate.hypothesis,
            "predicted": f"{candidate.predicted_effect:.2f}x",
            "verdict": record.verdict or "none yet",
            "reason": record.reason or "",
            "evidence": record.evidence or "",
            "lineage": " > ".join(ancestors),
        }
    )
