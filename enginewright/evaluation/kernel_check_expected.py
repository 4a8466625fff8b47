"""What a group means, op by op in NumPy, and how far a kernel's answer may be from it."""

from __future__ import annotations

import numpy as np

from enginewright.evaluation.kernel_cases import Case
from enginewright.evaluation.kernel_check_group import CheckedGroup, Floats, Outcome, WrongKernel
from enginewright.model.op_table import state_shape
from enginewright.model.ops import OPS, Cache, Step

EXACT_TOLERANCE = 3e-5
"""Of a row's largest value; float32 sums in another order."""
QUANTISED_TOLERANCE = 2e-2
"""With activations in 8 bits, against the semantics that quantise too: a value that falls on the
other side of a rounding edge moves the whole row a little."""
QUANTISED_MEDIAN = 1e-4
"""Most rows have no such value."""
QUANTISED_LOOSE = 8e-2
"""Against the float semantics."""
HALF_CACHE_TOLERANCE = 2e-3
BLOCK = 32


def expected(group: CheckedGroup, case: Case, *, quantise: bool) -> Outcome:
    """The answer of the semantics; `quantise` rounds the inputs of matrices to 8 bits first."""
    step = case.step
    layers = {op.integer("layer") for op in group.ops if "layer" in op.attributes}
    cache = Cache(keys=case.keys.copy(), values=case.values.copy())
    seen = Step(
        token_ids=step.token_ids,
        positions=step.positions,
        slots=step.slots,
        starts=step.starts,
        selected_rows=step.selected_rows,
        caches=dict.fromkeys(layers, cache),
        states=_states(group, cache),
    )
    buffers = dict(case.inputs)
    for op in group.ops:
        inputs = [buffers[name] for name in op.inputs]
        if quantise and op.kind == "linear":
            inputs = [quantised(inputs[0])]
        made = OPS[op.kind](op, inputs, [group.weights[name] for name in op.weights], seen)
        buffers.update(zip(op.outputs, made, strict=True))
        if op.kind == "kv_write":
            for part in (cache.keys, cache.values):
                part[:] = part.astype(group.cache.element).astype(np.float32)
    return Outcome({name: buffers[name] for name in group.outputs}, cache.keys, cache.values)


def _states(group: CheckedGroup, cache: Cache) -> dict[str, Floats]:
    """The state of the recurrent op, if there is one: a view of what the case holds as keys."""
    op = group.recurrent
    if op is None:
        return {}
    shape = state_shape(op, group.widths[op.inputs[0]])
    return {op.id: cache.keys.reshape(len(cache.keys), *shape)}


def quantised(x: Floats) -> Floats:
    """Rows in blocks of 32 as whole numbers of max|x| / 127.

    Source: what llama.cpp does in front of a quantised matrix.
    """
    blocks = x.reshape(len(x), -1, BLOCK)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / np.float32(127)
    whole = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0))
    return np.asarray((whole * scale).reshape(x.shape), np.float32)


def compare(group: CheckedGroup, case: Case, got: Outcome) -> list[float]:
    """Values against the semantics: the error of every row, of the row's largest value.

    Raises: WrongKernel naming output, row and size of the error.
    """
    tolerance = QUANTISED_TOLERANCE if group.is_quantised else EXACT_TOLERANCE
    is_half = group.is_cached and group.cache.dtype == "f16"
    cached = max(tolerance, HALF_CACHE_TOLERANCE) if is_half else tolerance
    if group.writes_cache and group.reads_cache:
        tolerance = cached
    _require_cache_kept(group, case, got)
    want = expected(group, case, quantise=group.is_quantised)
    errors = _row_errors(group, case, got, want, (tolerance, cached))
    if group.is_quantised:
        want = expected(group, case, quantise=False)
        _row_errors(group, case, got, want, (QUANTISED_LOOSE, QUANTISED_LOOSE))
    return errors


def require_median(errors: list[float]) -> None:
    """Most rows of a kernel with 8-bit activations are as near as float32 sums are.

    Raises: WrongKernel if they are not.
    """
    median = float(np.median(errors))
    if median > QUANTISED_MEDIAN:
        raise WrongKernel(
            "values",
            f"the median row is off by {median:.1e} of its largest value; "
            f"allowed {QUANTISED_MEDIAN:.1e}",
        )


def _require_cache_kept(group: CheckedGroup, case: Case, got: Outcome) -> None:
    outside = np.ones(case.keys.shape[:2], np.bool_)
    if group.writes_cache:
        outside[group.written(case.step)] = False
    for name, mine, before in (
        ("keys", got.keys, case.keys),
        ("values", got.values, case.values),
    ):
        kept = before.astype(group.cache.element).astype(np.float32)
        if before.size and not np.array_equal(mine[outside], kept[outside]):
            raise WrongKernel(
                "bounds", f"changed cached {name} that are not its rows' ({case.label})"
            )


def _row_errors(
    group: CheckedGroup, case: Case, got: Outcome, want: Outcome, most: tuple[float, float]
) -> list[float]:
    """`most` is allowed for outputs and for the cache."""
    pairs = [(name, got.outputs[name], want.outputs[name], most[0]) for name in group.outputs]
    if group.writes_cache:
        at = group.written(case.step)
        rows = len(at[0])
        for name, cached, right in (
            ("keys", got.keys, want.keys),
            ("values", got.values, want.values),
        ):
            if cached.size:
                pairs.append(
                    (name, cached[at].reshape(rows, -1), right[at].reshape(rows, -1), most[1])
                )
    found: list[float] = []
    for name, mine, right, allowed in pairs:
        unwritten = ~np.isfinite(mine)
        if unwritten.any():
            row, column = np.argwhere(unwritten)[0]
            value = mine[row, column]
            raise WrongKernel(
                "unwritten",
                f"`{name}` row {row} column {column} is {value} after the call ({case.label})",
            )
        size = np.abs(right).max(axis=1) + 1e-30
        errors = np.abs(mine.astype(np.float64) - right).max(axis=1) / size
        found += errors.tolist()
        if len(errors) and errors.max() > allowed:
            row = int(errors.argmax())
            column = int(np.abs(mine[row] - right[row]).argmax())
            raise WrongKernel(
                "values",
                f"`{name}` row {row} column {column} is {mine[row, column]:.7g}, expected "
                f"{right[row, column]:.7g}: off by {errors[row]:.1e} of the row's largest value, "
                f"allowed {allowed:.1e} ({case.label})",
            )
    return found
