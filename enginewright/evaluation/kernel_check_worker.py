"""The process that runs a kernel under check: a request on stdin, one line of JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from enginewright.evaluation.kernel_cases import Case, random_cache, random_step
from enginewright.evaluation.kernel_check_call import FILLS, GuardedCaller
from enginewright.evaluation.kernel_check_expected import compare, require_median
from enginewright.evaluation.kernel_check_group import CheckedGroup, Outcome, WrongKernel
from enginewright.evaluation.kernel_object import BrokenContract, KernelObject

FEW_ROWS = (1, 2, 3, 5)
MOST_ROWS = 96
"""Rows of the largest case: more only repeats what tiles and blocks already did."""
MAGNITUDES = (1.0, 0.01, 20.0)


@dataclass
class Check:
    """One kernel and its group."""

    caller: GuardedCaller
    group: CheckedGroup
    rng: np.random.Generator
    row_errors: list[float] = field(init=False, default_factory=list)

    def run(self) -> None:
        """Every case.

        Raises: WrongKernel or BrokenContract.
        """
        limit = min(int(self.group.request["rows"]), MOST_ROWS)
        sizes = sorted({size for size in FEW_ROWS if size <= limit} | {limit})
        for number, rows in enumerate(sizes):
            case = self.random_case(rows, MAGNITUDES[number % len(MAGNITUDES)])
            threads = 1 + number % 3
            # What holds NaN before the call shows what was never written.
            whole = self.caller.call(case, threads=threads, concurrent=True, fill=FILLS[0])
            self.row_errors += compare(self.group, case, whole)
            for others, fill in zip((1, 2, 3), FILLS, strict=True):
                again = self.caller.call(
                    case, threads=others, concurrent=others == threads, fill=fill
                )
                self.require_same(case, whole, again, f"with {others} threads")
            self.check_parts(case, whole)
        if self.group.is_quantised:
            require_median(self.row_errors)

    def random_case(self, rows: int, magnitude: float) -> Case:
        """Fresh inputs for `rows` rows."""
        group, request = self.group, self.group.request
        tables = group.tables()
        limits = [len(values) - first for kind, values, first in tables if kind == "position"]
        step = random_step(
            self.rng,
            name=request["step"],
            rows=rows,
            selected=int(request["selected"]),
            capacity=min([group.capacity, *limits]),
            vocabulary=len(tables[0][1]) if tables else 100,
        )
        keys = values = np.zeros((0, 0, 0, 0), np.float32)
        if group.is_cached:
            op = next(op for op in group.ops if op.kind in ("attention", "kv_write"))
            keys, values = random_cache(
                self.rng,
                step,
                (group.capacity, op.integer("kv_heads"), op.integer("head_dim")),
                holds_rows=not group.writes_cache,
                dtype=group.cache.dtype,
            )
        label = f"{rows} rows, {len(step.segments)} segments, magnitude {magnitude}"
        case = Case(step=step, inputs={}, keys=keys, values=values, label=label)
        counts = case.counts()
        for name in group.inputs:
            shape = (counts[group.kinds[name]], group.widths[name])
            drawn = self.rng.standard_normal(shape, dtype=np.float32)
            case.inputs[name] = drawn * np.float32(magnitude)
        return case

    def check_parts(self, case: Case, whole: Outcome) -> None:
        """Rows alone, cut up and in another order give the same bytes."""
        rows = np.arange(len(case.step.token_ids))
        segments = [rows[part] for part in case.step.segments]
        if self.group.is_whole or self.group.request["step"] == "encode":
            parts = [segments[0], np.concatenate(segments[::-1])]
        else:
            alone = self.rng.choice(rows, min(3, len(rows)), replace=False)
            cut = len(rows) // 2
            parts = [np.array([row]) for row in alone] + [rows[:cut], rows[cut:]]
            parts.append(np.concatenate(segments[::-1]))
        for part in parts:
            if len(part) == 0:
                continue
            # Over the cache as the whole call left it: each row finds what came before it.
            smaller = case.part(part, self.group.kinds, whole.keys, whole.values)
            needs_selected = "selected" in self.group.kinds.values()
            if needs_selected and len(smaller.step.selected_rows) == 0:
                continue
            threads = 1 + len(part) % 3
            got = self.caller.call(smaller, threads=threads, concurrent=True, fill=FILLS[-threads])
            self.require_same(smaller, self.rows_of(case, whole, part), got, "apart")

    def rows_of(self, case: Case, whole: Outcome, part: npt.NDArray[np.int64]) -> Outcome:
        """The outputs of some token rows of a whole call, in the order of `part`'s call."""
        held = Case(
            step=case.step, inputs=whole.outputs, keys=whole.keys, values=whole.values, label=""
        )
        picked = held.part(part, self.group.kinds, whole.keys, whole.values)
        return Outcome(picked.inputs, whole.keys, whole.values)

    def require_same(self, case: Case, first: Outcome, second: Outcome, how: str) -> None:
        """Raises: WrongKernel if a byte differs."""
        pairs = [(name, first.outputs[name], second.outputs[name]) for name in self.group.outputs]
        pairs += [("keys", first.keys, second.keys), ("values", first.values, second.values)]
        for name, one, other in pairs:
            one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
            if not np.array_equal(one.view(np.uint32), other.view(np.uint32)):
                raise WrongKernel("row_invariance", f"`{name}` differs {how} ({case.label})")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The verdict on a request."""
    try:
        rng = np.random.default_rng(request["seed"])
        kernel = KernelObject.load(Path(request["object"]))
        group = CheckedGroup(request, rng)
        check = Check(GuardedCaller(kernel, group), group, rng)
        check.run()
    except WrongKernel as error:
        return {"verdict": "wrong", "rule": error.rule, "reason": error.reason}
    except BrokenContract as error:
        return {"verdict": "wrong", "rule": "abi", "reason": str(error)}
    return {
        "verdict": "checked",
        "worst_error": max(check.row_errors, default=0.0),
        "cases": check.caller.cases,
    }


def main() -> int:
    """Check what stdin describes. The answer carries the request's token, so that what a kernel
    prints is not taken for it."""
    request = json.load(sys.stdin)
    private = os.dup(1)
    os.dup2(2, 1)
    text = json.dumps({"token": request["token"], **answer(request)})
    os.write(private, text.encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
