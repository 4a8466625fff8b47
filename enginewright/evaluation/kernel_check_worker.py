"""The process that runs a kernel under check: a request on stdin, one line of JSON on stdout."""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from enginewright.evaluation.kernel_cases import Case, random_cache, random_step, random_weight
from enginewright.evaluation.kernel_object import (
    BrokenContract,
    CacheRecord,
    CallRecord,
    Guarded,
    KernelObject,
    StepRecord,
)
from enginewright.model.dtypes import to_float32
from enginewright.model.graph import Constant, Op
from enginewright.model.ops import OPS, Cache, Step

Floats = npt.NDArray[np.float32]
FEW_ROWS = (1, 2, 3, 5)
MOST_ROWS = 96
"""Rows of the largest case: more only repeats what tiles and blocks already did."""
MAGNITUDES = (1.0, 0.01, 20.0)
EXACT_TOLERANCE = 3e-5
QUANTISED_TOLERANCE = 2e-2
"""With activations in 8 bits, against the semantics that quantise too: a value that falls on the other side of a
rounding edge moves the whole row a little."""
QUANTISED_MEDIAN = 1e-4
"""Most rows have no such value."""
QUANTISED_LOOSE = 8e-2
"""Against the float semantics."""
HALF_CACHE_TOLERANCE = 2e-3
BLOCK = 32


class WrongKernel(Exception):
    """What is wrong: rule and reason."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule, self.reason = rule, reason


@dataclass
class Outcome:
    """What a call left behind."""

    outputs: dict[str, Floats]
    keys: Floats
    values: Floats


@dataclass
class Check:
    """One kernel and its group."""

    kernel: KernelObject
    request: dict[str, Any]
    rng: np.random.Generator
    ops: list[Op] = field(init=False)
    weights: dict[str, Floats] = field(init=False, default_factory=dict)
    stored: list[tuple[str, Guarded, Guarded]] = field(init=False, default_factory=list)
    row_errors: list[float] = field(init=False, default_factory=list)
    cases: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        graph = self.request["graph"]
        self.ops = [Op.model_validate(op) for op in graph["ops"]]
        self.kinds = {name: held["rows"] for name, held in graph["buffers"].items()}
        self.widths = {name: held["width"] for name, held in graph["buffers"].items()}
        made = [name for op in self.ops for name in op.outputs]
        self.inputs = list(
            dict.fromkeys(name for op in self.ops for name in op.inputs if name not in made)
        )
        self.outputs = [name for name in made if name in graph["wanted"]]
        kinds = [op.kind for op in self.ops]
        self.is_cached = "attention" in kinds or "kv_write" in kinds
        self.is_whole = bool({"self_attention", "mean_pool", "first_pool"} & set(kinds))
        self.is_quantised = "activations_q8" in self.request["numerics"]
        self._make_weights(graph)

    def _make_weights(self, graph: dict[str, Any]) -> None:
        number = 0
        for op in self.ops:
            for place, name in enumerate(op.weights):
                if name in graph["constants"]:
                    values = Constant.model_validate(graph["constants"][name]).array()
                    raw = values.reshape(-1).view(np.uint8)
                else:
                    described = graph["weights"][name]
                    is_scale = op.kind in ("rms_norm", "layer_norm") and place == 0
                    raw = random_weight(self.rng, described, is_scale=is_scale)
                    values = to_float32(raw, described["dtype"], tuple(described["shape"]))
                stored = Guarded.holding(raw)
                layout = self.request["layouts"][number]
                self.stored.append((name, stored, self.kernel.pack(number, stored, layout)))
                self.weights[name] = values
                number += 1
        self.untouched = [(name, packed.bytes.copy()) for name, _, packed in self.stored]

    def run(self) -> None:
        """Every case.

        Raises: WrongKernel or BrokenContract.
        """
        limit = min(int(self.request["rows"]), MOST_ROWS)
        sizes = sorted({size for size in FEW_ROWS if size <= limit} | {limit})
        for number, rows in enumerate(sizes):
            magnitude = MAGNITUDES[number % len(MAGNITUDES)]
            case = self.random_case(rows, magnitude)
            threads = 1 + number % 3
            whole = self.call(case, threads=threads, concurrent=True)
            self.compare(case, whole)
            for others in (1, 2, 3):
                again = self.call(case, threads=others, concurrent=others == threads)
                self.require_same(case, whole, again, f"with {others} threads")
            self.check_parts(case, whole)
        if self.is_quantised and np.median(self.row_errors) > QUANTISED_MEDIAN:
            raise WrongKernel(
                "values",
                f"the median row is off by {np.median(self.row_errors):.1e} of its largest value; "
                f"allowed {QUANTISED_MEDIAN:.1e}",
            )

    def random_case(self, rows: int, magnitude: float) -> Case:
        """Fresh inputs for `rows` rows."""
        capacity = int(self.request["cache"].get("capacity", 512)) if self.is_cached else 512
        tables = [
            len(self.weights[name]) for op in self.ops if op.kind == "embed" for name in op.weights
        ]
        positions = [
            len(self.weights[name]) - op.integer("position_offset")
            for op in self.ops
            if op.kind == "embed"
            for name, table in zip(op.weights, op.attributes["tables"], strict=True)  # type: ignore[arg-type]
            if table == "position"
        ]
        step = random_step(
            self.rng,
            name=self.request["step"],
            rows=rows,
            selected=int(self.request["selected"]),
            capacity=min([capacity, *positions]),
            vocabulary=tables[0] if tables else 100,
        )
        counts = {
            "tokens": rows,
            "selected": len(step.selected_rows),
            "segments": len(step.segments),
        }
        inputs = {}
        for name in self.inputs:
            shape = (counts[self.kinds[name]], self.widths[name])
            inputs[name] = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(magnitude)
        keys = values = np.zeros((0, 0, 0, 0), np.float32)
        if self.is_cached:
            op = next(op for op in self.ops if op.kind in ("attention", "kv_write"))
            keys, values = random_cache(
                self.rng,
                step,
                (capacity, op.integer("kv_heads"), op.integer("head_dim")),
                holds_rows=all(op.kind != "kv_write" for op in self.ops),
                dtype=self.request["cache"]["dtype"],
            )
        label = f"{rows} rows, {len(step.segments)} segments, magnitude {magnitude}"
        return Case(step=step, inputs=inputs, keys=keys, values=values, label=label)

    def call(self, case: Case, *, threads: int, concurrent: bool) -> Outcome:
        """Run the kernel once, with every buffer guarded and outputs that hold NaN.

        Raises: WrongKernel if it wrote where it may not.
        """
        step, kernel = case.step, self.kernel
        counts = {
            "tokens": len(step.token_ids),
            "selected": len(step.selected_rows),
            "segments": len(step.segments),
        }
        inputs = {name: Guarded.holding(case.inputs[name]) for name in self.inputs}
        outputs = {
            name: Guarded.holding(
                np.full((counts[self.kinds[name]], self.widths[name]), np.nan, np.float32)
            )
            for name in self.outputs
        }
        arrays = {
            name: Guarded.holding(getattr(step, name).astype(np.uint32))
            for name in ("token_ids", "positions", "slots", "starts", "selected_rows")
        }
        caches = [Guarded.holding(self.to_cache(part)) for part in (case.keys, case.values)]
        scratch = kernel.scratch(counts["tokens"], threads)
        ticket = np.zeros(16, np.uint32)
        record = StepRecord(
            rows=counts["tokens"],
            segments=counts["segments"],
            selected=counts["selected"],
            **{name: held.address for name, held in arrays.items()},
        )
        call = CallRecord(
            step=ctypes.pointer(record),
            threads=threads,
            scratch=scratch.address,
            ticket=ticket.ctypes.data,
        )
        for number, name in enumerate(self.inputs):
            call.inputs[number] = inputs[name].address
        for number, name in enumerate(self.outputs):
            call.outputs[number] = outputs[name].address
        for number, (_, _, packed) in enumerate(self.stored):
            call.weights[number] = packed.address
        if self.is_cached:
            call.cache = CacheRecord(
                keys=caches[0].address,
                values=caches[1].address,
                slot_bytes=caches[0].size // len(case.keys),
                capacity=case.keys.shape[1],
            )
        kernel.run(call, ticket, concurrent=concurrent)
        self.cases += 1
        guarded = (
            {"scratch": scratch, "keys": caches[0], "values": caches[1]} | inputs | outputs | arrays
        )
        for name, held in guarded.items():
            if not held.is_intact():
                raise WrongKernel(
                    "bounds", f"wrote outside `{name}` ({case.label}, {threads} threads)"
                )
        for name, before in self.inputs_before(case):
            if not np.array_equal(inputs[name].bytes, before):
                raise WrongKernel("inputs_changed", f"changed its input `{name}` ({case.label})")
        for (name, before), (_, _, packed) in zip(self.untouched, self.stored, strict=True):
            if not packed.is_intact() or not np.array_equal(packed.bytes, before):
                raise WrongKernel("inputs_changed", f"changed weight `{name}` ({case.label})")
        return Outcome(
            outputs={
                name: held.floats(counts[self.kinds[name]], self.widths[name])
                for name, held in outputs.items()
            },
            keys=self.from_cache(caches[0], case.keys.shape),
            values=self.from_cache(caches[1], case.values.shape),
        )

    def inputs_before(self, case: Case) -> list[tuple[str, npt.NDArray[np.uint8]]]:
        """The bytes of every input as they were."""
        return [(name, case.inputs[name].reshape(-1).view(np.uint8)) for name in self.inputs]

    def to_cache(self, part: Floats) -> npt.NDArray[Any]:
        """Keys or values in the cache's type and order."""
        if self.request["cache"].get("layout") == "head_major":
            part = part.swapaxes(1, 2)
        kind = np.float16 if self.request["cache"].get("dtype") == "f16" else np.float32
        return np.ascontiguousarray(part.astype(kind))

    def from_cache(self, held: Guarded, shape: tuple[int, ...]) -> Floats:
        """The reverse of `to_cache`."""
        is_head_major = self.request["cache"].get("layout") == "head_major"
        kind = np.float16 if self.request["cache"].get("dtype") == "f16" else np.float32
        if is_head_major:
            shape = (shape[0], shape[2], shape[1], shape[3])
        part = held.bytes.view(kind).reshape(shape).astype(np.float32)
        return part.swapaxes(1, 2) if is_head_major else part

    def expected(self, case: Case, *, quantise: bool) -> Outcome:
        """What the group means, op by op in NumPy."""
        step = case.step
        layers = {op.integer("layer") for op in self.ops if "layer" in op.attributes}
        cache = Cache(keys=case.keys.copy(), values=case.values.copy())
        seen = Step(
            token_ids=step.token_ids,
            positions=step.positions,
            slots=step.slots,
            starts=step.starts,
            selected_rows=step.selected_rows,
            caches=dict.fromkeys(layers, cache),
        )
        buffers = dict(case.inputs)
        for op in self.ops:
            inputs = [buffers[name] for name in op.inputs]
            if quantise and op.kind == "linear":
                inputs = [quantised(inputs[0])]
            made = OPS[op.kind](op, inputs, [self.weights[name] for name in op.weights], seen)
            buffers.update(zip(op.outputs, made, strict=True))
            if op.kind == "kv_write" and self.request["cache"]["dtype"] == "f16":
                for part in (cache.keys, cache.values):
                    part[:] = part.astype(np.float16).astype(np.float32)
        return Outcome({name: buffers[name] for name in self.outputs}, cache.keys, cache.values)

    def compare(self, case: Case, got: Outcome) -> None:
        """Values against the semantics.

        Raises: WrongKernel naming output, row and size of the error.
        """
        tolerance = QUANTISED_TOLERANCE if self.is_quantised else EXACT_TOLERANCE
        is_half = self.is_cached and self.request["cache"]["dtype"] == "f16"
        kv_tolerance = max(tolerance, HALF_CACHE_TOLERANCE) if is_half else tolerance
        if any(op.kind == "kv_write" for op in self.ops) and any(
            op.kind == "attention" for op in self.ops
        ):
            tolerance = kv_tolerance
        self.compare_with(
            case, got, self.expected(case, quantise=self.is_quantised), (tolerance, kv_tolerance)
        )
        if self.is_quantised:
            loose = (QUANTISED_LOOSE, QUANTISED_LOOSE)
            self.compare_with(
                case, got, self.expected(case, quantise=False), loose, is_counted=False
            )

    def compare_with(
        self,
        case: Case,
        got: Outcome,
        want: Outcome,
        tolerance: tuple[float, float],
        *,
        is_counted: bool = True,
    ) -> None:
        """Rows of outputs and places of the cache against expected ones."""
        pairs = [
            (name, got.outputs[name], want.outputs[name], tolerance[0]) for name in self.outputs
        ]
        if any(op.kind == "kv_write" for op in self.ops):
            at = case.step.slots, case.step.positions
            for name, mine, right in (
                ("keys", got.keys, want.keys),
                ("values", got.values, want.values),
            ):
                rows = len(case.step.slots)
                pairs.append(
                    (name, mine[at].reshape(rows, -1), right[at].reshape(rows, -1), tolerance[1])
                )
        outside = np.ones(case.keys.shape[:2], np.bool_)
        if any(op.kind == "kv_write" for op in self.ops):
            outside[case.step.slots, case.step.positions] = False
        for name, mine, before in (
            ("keys", got.keys, case.keys),
            ("values", got.values, case.values),
        ):
            kind = np.float16 if self.request["cache"].get("dtype") == "f16" else np.float32
            if not np.array_equal(mine[outside], before.astype(kind).astype(np.float32)[outside]):
                raise WrongKernel(
                    "bounds", f"changed cached {name} that are not its rows' ({case.label})"
                )
        for name, mine, right, most in pairs:
            unwritten = ~np.isfinite(mine)
            if unwritten.any():
                row, column = np.argwhere(unwritten)[0]
                raise WrongKernel(
                    "unwritten",
                    f"`{name}` row {row} column {column} is {mine[row, column]} after the call ({case.label})",
                )
            size = np.abs(right).max(axis=1) + 1e-30
            errors = np.abs(mine.astype(np.float64) - right).max(axis=1) / size
            if is_counted:
                self.row_errors += errors.tolist()
            if len(errors) and errors.max() > most:
                row = int(errors.argmax())
                column = int(np.abs(mine[row] - right[row]).argmax())
                raise WrongKernel(
                    "values",
                    f"`{name}` row {row} column {column} is {mine[row, column]:.7g}, expected "
                    f"{right[row, column]:.7g}: off by {errors[row]:.1e} of the row's largest value, allowed "
                    f"{most:.1e} ({case.label})",
                )

    def check_parts(self, case: Case, whole: Outcome) -> None:
        """Rows alone, cut up and in another order give the same bytes."""
        rows = np.arange(len(case.step.token_ids))
        segments = [rows[part] for part in case.step.segments]
        if self.is_whole or self.request["step"] == "encode":
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
            smaller = case.part(part, self.kinds, whole.keys, whole.values)
            if self.needs_selected() and len(smaller.step.selected_rows) == 0:
                continue
            got = self.call(smaller, threads=1 + len(part) % 3, concurrent=True)
            self.require_same(smaller, self.rows_of(case, whole, part), got, "apart")

    def needs_selected(self) -> bool:
        """Whether the group computes selected rows."""
        return "selected" in self.kinds.values()

    def rows_of(self, case: Case, whole: Outcome, part: npt.NDArray[np.int64]) -> Outcome:
        """The outputs of some token rows of a whole call, in the order of `part`'s call."""
        picked = case.part(part, self.kinds, whole.keys, whole.values)
        held = Case(
            step=case.step, inputs=whole.outputs, keys=whole.keys, values=whole.values, label=""
        )
        return Outcome(
            held.part(part, self.kinds, picked.keys, picked.values).inputs, whole.keys, whole.values
        )

    def require_same(self, case: Case, first: Outcome, second: Outcome, how: str) -> None:
        """Raises: WrongKernel if a byte differs."""
        pairs = [(name, first.outputs[name], second.outputs[name]) for name in self.outputs]
        pairs += [("keys", first.keys, second.keys), ("values", first.values, second.values)]
        for name, one, other in pairs:
            one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
            if not np.array_equal(one.view(np.uint32), other.view(np.uint32)):
                raise WrongKernel("row_invariance", f"`{name}` differs {how} ({case.label})")


def quantised(x: Floats) -> Floats:
    """Rows in blocks of 32 as whole numbers of max|x| / 127, as llama.cpp does in front of a quantised matrix."""
    blocks = x.reshape(len(x), -1, BLOCK)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / np.float32(127)
    whole = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0))
    return np.asarray((whole * scale).reshape(x.shape), np.float32)


def main() -> int:
    """Check what stdin describes."""
    request = json.load(sys.stdin)
    try:
        kernel = KernelObject.load(Path(request["object"]))
        check = Check(kernel, request, np.random.default_rng(request["seed"]))
        check.run()
    except WrongKernel as error:
        answer: dict[str, Any] = {"verdict": "wrong", "rule": error.rule, "reason": error.reason}
    except BrokenContract as error:
        answer = {"verdict": "wrong", "rule": "abi", "reason": str(error)}
    else:
        answer = {
            "verdict": "checked",
            "worst_error": max(check.row_errors, default=0.0),
            "cases": check.cases,
        }
    print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
