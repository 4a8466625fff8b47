"""Paired samples to a table: medians, and the ratio of two arms with a bootstrap interval."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity of two arms over the same blocks."""

    quantity: str
    """What was measured, with its unit."""
    ours: float
    """Median over blocks."""
    peer: float
    """Median over blocks."""
    ratio: float
    """Geometric mean of ours / peer over blocks."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end of its 95 % interval."""
    blocks: int
    """Blocks, each with both arms in fresh processes."""


def compare(quantity: str, ours: list[float], peer: list[float]) -> Comparison:
    """Pair two arms' samples by block; the interval is a BCa bootstrap of the mean log ratio."""
    if len(ours) != len(peer) or len(ours) < 3:
        raise ValueError(f"{quantity}: {len(ours)} and {len(peer)} samples do not pair up")
    logs = np.log(np.asarray(ours) / np.asarray(peer))
    if np.ptp(logs) == 0.0:
        low = high = float(logs[0])
    else:
        interval = stats.bootstrap(
            (logs,), np.mean, rng=np.random.default_rng(0)
        ).confidence_interval
        low, high = float(interval.low), float(interval.high)
    return Comparison(
        quantity=quantity,
        ours=float(np.median(ours)),
        peer=float(np.median(peer)),
        ratio=float(np.exp(logs.mean())),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        blocks=len(logs),
    )


def machine() -> dict[str, object]:
    """What was measured on, and how busy it was."""
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return {
        "processor": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load_average": list(os.getloadavg()),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def table(rows: list[Comparison], peer: str) -> str:
    """The comparisons as a Markdown table."""
    lines = [
        f"| quantity | ours | {peer} | ours / peer | 95 % interval | blocks |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.quantity} | {row.ours:.4g} | {row.peer:.4g} | {row.ratio:.2f} | "
        f"{row.low:.2f} – {row.high:.2f} | {row.blocks} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def save(path: Path, record: dict[str, object]) -> None:
    """Write raw samples and what was measured on, so that anybody can re-decide."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), **record}, indent=1) + "\n")
