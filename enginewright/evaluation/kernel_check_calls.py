"""The calls that a kernel is checked by: sizes, magnitudes, threads, company."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from enginewright.evaluation.kernel_cases import Case, random_cache, random_step
from enginewright.evaluation.kernel_check_expected import compare, require_median
from enginewright.evaluation.kernel_check_group import CheckedGroup, Outcome, WrongKernel

FEW_ROWS = (1, 2, 3, 5)
MOST_ROWS = 96
"""Rows of the largest case: more only repeats what tiles and blocks already did."""
MAGNITUDES = (1.0, 0.01, 20.0)
FILLS = (0xFF, 0x47, 0x00)
"""What scratch and outputs hold before calls: NaN, 51015.28 and 0 as float32. A kernel that reads
what nobody wrote cannot give the same bytes over all of them."""


class Caller(Protocol):
    """Something that runs a case through the kernel."""

    def call(self, case: Case, *, threads: int, concurrent: bool, fill: int) -> Outcome:
        """What the kernel left; `fill` is every byte of scratch and outputs before.

        Raises: WrongKernel if it wrote where it may not.
        """
        ...


@dataclass
class Check:
    """Every call that a kernel is checked by, in one order that follows from the seed.

    Both sides run it: the process with the kernel makes the calls, and judges nothing; the judge
    receives their outputs, and compares.
    """

    caller: Caller
    """Makes calls, or receives what they gave."""
    group: CheckedGroup
    """What the kernel computes."""
    rng: np.random.Generator
    """Of the cases; in the same state on both sides."""
    is_judge: bool
    """Whether outputs are compared here."""
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
            if self.is_judge:
                self.row_errors += compare(self.group, case, whole)
            for others, fill in zip((1, 2, 3), FILLS, strict=True):
                again = self.caller.call(
                    case, threads=others, concurrent=others == threads, fill=fill
                )
                self.require_same(case, whole, again, f"with {others} threads")
            self.check_parts(case, whole)
        if self.is_judge and self.group.is_quantised:
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
        if group.recurrent is not None:
            for number, part in enumerate(step.segments):
                if (rows + number) % 2 == 0:
                    # A sequence that begins: what its slot holds must not be seen.
                    step.positions[part] -= step.positions[part.start]
            slots = int(step.slots.max()) + 1
            keys = self.rng.standard_normal((slots, 1, 1, group.state_values()), dtype=np.float32)
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
        if self.group.recurrent is not None:
            self.check_pieces(case, whole)
            return
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

    def check_pieces(self, case: Case, whole: Outcome) -> None:
        """Rows of a recurrent op in two pieces, each over the state that the one before left, and
        segments in another order, give the same bytes and leave the same states."""
        rows = np.arange(len(case.step.token_ids))
        segments = [rows[part] for part in case.step.segments]
        cut = (len(rows) + 1) // 2
        for pieces in ([rows[:cut], rows[cut:]], [np.concatenate(segments[::-1])]):
            keys, values = case.keys, case.values
            for number, piece in enumerate(pieces):
                if len(piece) == 0:
                    continue
                smaller = case.part(piece, self.group.kinds, keys, values)
                got = self.caller.call(
                    smaller, threads=1 + number, concurrent=True, fill=FILLS[-1 - number]
                )
                keys, values = got.keys, got.values
                want = self.rows_of(case, whole, piece)
                is_last = number == len(pieces) - 1
                left = (whole.keys, whole.values) if is_last else (keys, values)
                self.require_same(smaller, Outcome(want.outputs, *left), got, "in pieces")

    def rows_of(self, case: Case, whole: Outcome, part: npt.NDArray[np.int64]) -> Outcome:
        """The outputs of some token rows of a whole call, in the order of `part`'s call."""
        held = Case(
            step=case.step, inputs=whole.outputs, keys=whole.keys, values=whole.values, label=""
        )
        picked = held.part(part, self.group.kinds, whole.keys, whole.values)
        return Outcome(picked.inputs, whole.keys, whole.values)

    def require_same(self, case: Case, first: Outcome, second: Outcome, how: str) -> None:
        """Raises: WrongKernel if a byte differs."""
        if not self.is_judge:
            return
        pairs = [(name, first.outputs[name], second.outputs[name]) for name in self.group.outputs]
        pairs += [("keys", first.keys, second.keys), ("values", first.values, second.values)]
        for name, one, other in pairs:
            one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
            if not np.array_equal(one.view(np.uint32), other.view(np.uint32)):
                raise WrongKernel("row_invariance", f"`{name}` differs {how} ({case.label})")
