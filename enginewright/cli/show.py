"""`enginewright show`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from enginewright.cli.output import JsonFlag, print_fields, print_json
from enginewright.cli.places import open_archive, open_store
from enginewright.retention import TrialRecord, lineage


def show(
    trial: Annotated[str, typer.Argument(help="A trial, as `log` names it.")],
    as_json: JsonFlag = False,
) -> None:
    """Show one trial: hypothesis, prediction, lineage, verdict and evidence."""
    archive = open_archive()
    record = archive.trial(trial)
    candidate = archive.candidate(record.candidate)
    ancestors = [held.id for held in lineage(archive.candidates(candidate.run), candidate.id)]
    evidence = _evidence(record)
    if as_json:
        print_json(
            {
                "trial": asdict(record),
                "candidate": asdict(candidate),
                "lineage": ancestors,
                "evidence": evidence,
            }
        )
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
            **_checked(evidence),
        }
    )


def _evidence(record: TrialRecord) -> dict[str, Any] | None:
    if record.evidence is None:
        return None
    return dict(json.loads(open_store().get(record.evidence)))


def _checked(evidence: dict[str, Any] | None) -> dict[str, str]:
    """What was looked at, how, and what was not contained."""
    if evidence is None:
        return {}
    held = evidence.get("evidence", evidence)
    told: dict[str, str] = {}
    gates = held.get("gates")
    if isinstance(gates, dict):
        told["checked"] = "; ".join(
            f"{name}: {found['checked']} {'passed' if found['passed'] else found['detail']}"
            for name, found in gates.items()
        )
    comparison = evidence.get("comparison")
    if isinstance(comparison, dict):
        told["speed"] = (
            f"{comparison['speedup']:.4f}x ({comparison['low']:.4f} to {comparison['high']:.4f}) "
            f"in {comparison['blocks']} blocks of fresh processes, each with inputs of its own"
        )
    blocks = held.get("blocks")
    if isinstance(blocks, list):
        contended = sum(bool(block.get("contended")) for block in blocks)
        told["blocks"] = f"{len(blocks)} run, {contended} of them disturbed by others and repeated"
    if "sandbox" in held:
        told["sandbox"] = _contained(held["sandbox"])
    return told


def _contained(sandbox: dict[str, Any] | None) -> str:
    if sandbox is None:
        return "none: the engine was trusted; files, network and processes were in its reach"
    lacks = [name for name, reason in sandbox["layers"].items() if reason is not None]
    if sandbox["level"] == "weak":
        lacks = ["files and processes of the same user", *lacks]
    missing = ", ".join(lacks) if lacks else "flaws of the kernel, side channels (docs/sandbox.md)"
    return f"{sandbox['level']}; not contained: {missing}"
