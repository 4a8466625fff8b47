"""The object that `build --json` prints; docs/cli.md documents it, and it stays stable."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from enginewright.swarm.agents.agents_result import agents_result
from enginewright.swarm.run import Run
from enginewright.swarm.sentinel_outcomes import false_promotion, outcomes
from enginewright.swarm.workbench import Confirmed, Delivered


def build_result(
    run: Run,
    confirmed: Confirmed,
    delivered: Delivered,
    *,
    shortlist: dict[str, Any] | None,
    answer: dict[str, str],
    timings: dict[str, Any],
    stopped_because: str,
) -> dict[str, Any]:
    """All that a build found, as plain JSON values."""
    champion = run.state.champion()
    return {
        "run": run.state.run,
        "target": run.subject.target.name,
        "naive": confirmed.naive,
        "champion": confirmed.champion,
        "baselines": confirmed.baselines,
        "speedup": confirmed.speedup,
        "floor_share": confirmed.floor_share,
        "acceptance": confirmed.acceptance,
        "accepted": all(item["holds"] for item in confirmed.acceptance),
        "trials": asdict(run.state.counts()),
        "agents": agents_result(run.state),
        "sentinels": [held.to_json() for held in outcomes(run.state.archive, run.state.run)],
        "false_promotion": false_promotion(run.state.archive).to_json(),
        "calibration": run.state.last_event("calibrated"),
        "shortlist": shortlist,
        "closeness": confirmed.closeness,
        "confirmation": {
            "blocks": confirmed.blocks,
            "disturbed_blocks": confirmed.disturbed_blocks,
        },
        "champion_candidate": champion.id,
        "stopped_because": stopped_because,
        "binary": str(delivered.binary),
        "manifest": str(delivered.manifest),
        "report": str(run.folder.report),
        "answer": answer,
        "timings": timings,
        "folder": str(run.folder.root),
    }
