"""Whether an engine ran what was meant: its plan in force, its kernels called under load.

A setting that never reaches the engine, an object of another build, a kernel that no step calls:
each would time the old engine under a new name.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from enginewright.evaluation.gates import Finding, passed, rejected
from enginewright.evaluation.passes import Engagement

GATE = "engagement"


def check_engagement(engine: Path | None, seen: Engagement | None) -> Finding:
    """Compare what the engine says with the plan in its folder.

    Other servers than ours tell nothing: the gate then has nothing to check, and passes.
    """
    if engine is None:
        return Finding(
            gate=GATE, checked=0, rejected=None, void=None, detail="not an engine of ours"
        )
    if seen is None:
        return passed(GATE, 0)
    meant = _meant(engine)
    for name in ("plan", "graph"):
        if seen.after.get(name) != meant[name]:
            told = str(seen.after.get(name))[:12]
            detail = f"runs {name} {told}; the one on trial is {meant[name][:12]}"
            return rejected(GATE, 1, "not_engaged", detail)
    for name, value in meant["settings"].items():
        if seen.after.get(name) != value:
            detail = f"{name} is {seen.after.get(name)!r} in the engine; the plan says {value!r}"
            return rejected(GATE, 1, "not_engaged", detail)
    checked = 2 + len(meant["settings"])
    for item in sorted(meant["objects"]):
        calls = _calls(seen.after, item) - _calls(seen.before, item)
        if calls <= 0:
            kernel = meant["objects"][item]
            detail = f"kernel {kernel} ({item[:12]}) was not called while it was timed"
            return rejected(GATE, checked, "not_engaged", detail)
        checked += 1
    return passed(GATE, checked)


def _calls(told: dict[str, Any], item: str) -> int:
    calls = told.get("calls")
    found = calls.get(item, 0) if isinstance(calls, dict) else 0
    return found if isinstance(found, int) else 0


def _meant(engine: Path) -> dict[str, Any]:
    text = (engine / "plan.json").read_bytes()
    plan = json.loads(text)
    return {
        "plan": hashlib.sha256(text).hexdigest(),
        "graph": hashlib.sha256((engine / "graph.json").read_bytes()).hexdigest(),
        "settings": {
            "device": plan.get("device", "cpu"),
            "spin_microseconds": plan["pool"]["spin_microseconds"],
            "pin": plan["pool"]["pin"],
            "huge_pages": plan["memory"]["huge_pages"],
            "cache": plan["cache"],
            "numerics": plan["numerics"],
            # A target cannot allow one yet: what one request computed may serve no other.
            "prefix_cache": False,
        },
        "objects": {
            group["object"]: group["kernel"]
            for step in plan["steps"].values()
            for group in step["groups"]
        },
    }
