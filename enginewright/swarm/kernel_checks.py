"""Kernel objects are checked once each: what was found is kept beside the object cache."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from enginewright.evaluation.kernel_check import (
    MOST_CHECK_SECONDS,
    Checked,
    CheckResult,
    check_kernel,
)
from enginewright.evaluation.sandbox import Sandbox
from enginewright.model import Graph
from enginewright.plan import Group, Library, Plan
from enginewright.plan.contracts import StepName
from enginewright.swarm.run_folder import write_json
from enginewright.swarm.try_kernel import group_request
from enginewright.swarm.workbench import Finding


class KernelChecks:
    """Checks the new objects of an engine, several at a time, within a time limit."""

    def __init__(self, folder: Path, sandbox: Sandbox | None = None) -> None:
        """`folder` has a file for each object that was checked; checks run in `sandbox`."""
        self._folder = folder
        self._sandbox = sandbox

    def check(
        self, graph: Graph, library: Library, engine: Path, *, seconds: float
    ) -> Finding | None:
        """A rejection that names the first wrong kernel, or None. What time did not allow stays
        unchecked; the whole-engine gates judge it."""
        built = Plan.from_json((engine / "plan.json").read_text(encoding="utf-8"))
        unchecked: dict[str, tuple[StepName, Group]] = {}
        for step in built.steps:
            for group in built.steps[step].groups:
                assert group.object is not None, "an engine's groups have objects. This is a bug."
                if self._known(group.object) is None:
                    unchecked.setdefault(group.object, (step, group))
        deadline = time.monotonic() + seconds

        def check_one(item: tuple[str, tuple[StepName, Group]]) -> tuple[Group, CheckResult] | None:
            key, (step, group) = item
            left = deadline - time.monotonic()
            if left < 1.0:
                return None
            made = engine / "kernels" / f"{key}.so"
            request = group_request(built, step, group, library.named(group.kernel), made)
            seconds = min(left, MOST_CHECK_SECONDS)
            result = check_kernel(graph, request, seconds=seconds, sandbox=self._sandbox)
            if isinstance(result, Checked):
                write_json(self._place(key), {"verdict": "checked", **asdict(result)})
            return group, result

        with ThreadPoolExecutor(max_workers=max(1, len(os.sched_getaffinity(0)))) as pool:
            results = [found for found in pool.map(check_one, unchecked.items()) if found]
        for group, result in results:
            # A check cut short by the candidate's own deadline says nothing.
            is_cut = type(result).__name__ == "TimedOut" and time.monotonic() >= deadline
            if not isinstance(result, Checked) and not is_cut:
                return _rejection(group, result)
        return None

    def _place(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _known(self, key: str) -> dict[str, Any] | None:
        try:
            held = json.loads(self._place(key).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return dict(held)


def _rejection(group: Group, result: CheckResult) -> Finding:
    what = type(result).__name__
    seconds = getattr(result, "seconds", 0.0)
    reason = getattr(result, "reason", f"no answer within {seconds:.0f} s")
    return Finding(
        kind="rejected",
        headline=f"rejected: kernel {group.kernel} is {what.lower()}: {reason}",
        evidence={"gate": "kernel_check", "group": group.id, "kernel": group.kernel,
                  "ops": list(group.ops), "result": what, **asdict(result)},
        speedup=None,
    )  # fmt: skip
