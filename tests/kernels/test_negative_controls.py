"""Wrong kernels, kept for ever: the kernel check must catch each of them, for the right reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from synthetic_graphs import Form, decoder

from enginewright.evaluation.kernel_check import Checked, Crashed, TimedOut, Wrong
from enginewright.model.op_table import RECURRENT
from enginewright.plan import Capacity, Choice, Library, load_library, naive_plan, regroup
from enginewright.settings import load_settings

WRONG = Path(__file__).parent / "wrong"
CAPACITY = Capacity(prefill_rows=12, prefill_selected=4, decode_rows=2, context=32, slots=2)
CAUGHT = {
    "adds_to_output": "unwritten",
    "changes_input": "inputs_changed",
    "changes_step": "inputs_changed",
    "changes_weight": "inputs_changed",
    "depends_on_company": "row_invariance",
    "depends_on_threads": "row_invariance",
    "drops_high_bits": "values",
    "forgets_its_state": "values",
    "goes_on_from_another_sequence": "values",
    "has_no_phase": "abi",
    "ignores_minima": "values",
    "ignores_weight": "values",
    "lacks_a_symbol": "abi",
    "packs_unasked": "abi",
    "reads_old_scratch": "row_invariance",
    "reads_past_input": "unwritten",
    "remembers_calls": "row_invariance",
    "returns_zeros": "values",
    "skips_last_row": "unwritten",
    "speaks_another_abi": "abi",
    "takes_the_next_scale": "values",
    "takes_the_other_scale": "values",
    "writes_keys_only": "values",
    "writes_next_position": "bounds",
    "writes_past_output": "bounds",
}
"""Rule that each control breaks."""
ENDED = {"aborts": "signal 6", "ends_process": "before the check", "forges_answer": "before the"}
"""What is said of controls that end the process."""

RIGHT = ("right", "right_k_quants")
"""Frames that the others spoil."""


@pytest.fixture(scope="session")
def wrong_library(tmp_path_factory) -> Library:
    folder = tmp_path_factory.mktemp("kernels")
    for source in [*load_settings().kernels.glob("*.rs"), *WRONG.glob("*.rs")]:
        shutil.copy(source, folder)
    return load_library(folder)


@pytest.fixture
def checked(workshop, wrong_library):
    """Checks a control in the place of one op of a small decoder."""

    def check(name: str, seconds: float = 100.0):
        contract = wrong_library.named(name).contract
        kind = contract.pattern
        dtype = next(iter(contract.matrices), "f32")
        graph = decoder(Form(dtype=dtype, is_hybrid=kind in RECURRENT))
        op = next(op.id for op in graph.ops if op.kind == kind)
        plan = naive_plan(graph, wrong_library, 2, capacity=CAPACITY)
        choice = Choice(ops=(op,), kernel=name)
        plan = regroup(plan, graph, wrong_library, step="prefill", choices=[choice])
        group = next(group for group in plan.steps["prefill"].groups if group.kernel == name)
        return workshop.check(wrong_library, graph, plan, "prefill", group, seconds=seconds)

    return check


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_controls_spoil_is_right(checked, name):
    result = checked(name)
    assert isinstance(result, Checked), result
    assert result.cases > 20


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_wrong_kernel_is_caught_for_the_right_reason(checked, name):
    result = checked(name)
    assert isinstance(result, Wrong), result
    assert result.rule == CAUGHT[name], result


@pytest.mark.parametrize("name", sorted(ENDED))
def test_a_kernel_that_ends_the_process_has_crashed(checked, name):
    result = checked(name)
    assert isinstance(result, Crashed), result
    assert ENDED[name] in result.reason


def test_a_kernel_that_hangs_is_ended(checked):
    assert checked("hangs", seconds=15.0) == TimedOut(seconds=15.0)


def test_every_control_is_used():
    files = {path.stem for path in WRONG.glob("*.rs")}
    assert files == {*CAUGHT, *ENDED, *RIGHT, "hangs", "right_norm"}
