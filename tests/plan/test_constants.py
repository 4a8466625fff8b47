"""Compile-time constants: exactly what docs/architecture.md lists."""

import numpy as np
import pytest

from enginewright.plan import StepSize, group_constants, naive_plan
from enginewright.plan.constants import op_constants

SIZE = StepSize(rows=16, selected=4)


def constants_of(graph, *kinds, parameters=()):
    ops = [next(op for op in graph.ops if op.kind == kind) for kind in kinds]
    return group_constants(
        graph, ops, SIZE, cache=("f16", "head_major"), parameters=dict(parameters)
    )


def test_a_group_says_kinds_room_and_parameters(llama):
    constants = constants_of(llama, "rms_norm", "linear", parameters=[("TILE", 4)])
    assert constants["EW_OPS"] == "rms_norm linear"
    assert (constants["EW_ROWS"], constants["EW_SELECTED"]) == ("16", "4")
    assert constants["EW_PARAM_TILE"] == "4"
    assert "EW_CACHE_DTYPE" not in constants


def test_a_matrix_says_its_shape_bias_and_type(llama):
    constants = constants_of(llama, "linear")
    op = next(op for op in llama.ops if op.kind == "linear")
    outputs, inputs = llama.weight_shape(op.weights[0])
    assert constants["EW_OP0_IN"] == str(inputs) == constants["EW_OP0_WIDTH"]
    assert constants["EW_OP0_OUT"] == str(outputs)
    assert constants["EW_OP0_BIAS"] == str(len(op.weights) - 1)
    assert constants["EW_OP0_DTYPE"] == "f16"
    assert constants["EW_OP0_ROWS"] == "tokens"


def test_floats_are_the_bits_of_their_float32(llama):
    bits = int(constants_of(llama, "rms_norm")["EW_OP0_EPSILON_BITS"])
    op = next(op for op in llama.ops if op.kind == "rms_norm")
    assert np.uint32(bits).view(np.float32) == np.float32(op.number("epsilon"))
    magnitude = constants_of(llama, "rope")["EW_OP0_MAGNITUDE_BITS"]
    assert int(magnitude) == int(np.float32(1).view(np.uint32))


def test_only_groups_that_touch_the_cache_say_its_form(llama):
    for kind in ("kv_write", "attention"):
        constants = constants_of(llama, kind)
        assert constants["EW_CACHE_DTYPE"] == "f16"
        assert constants["EW_CACHE_LAYOUT"] == "head_major"


def test_an_embedding_lists_its_tables(bert):
    constants = constants_of(bert, "embed")
    assert constants["EW_OP0_TABLES"] == "token position type"
    assert constants["EW_OP0_DTYPES"] == "f32 f32 f32"
    assert constants["EW_OP0_ENTRIES"] == str(bert.dimensions.vocabulary)


def test_layers_share_their_constants(llama, library):
    plan = naive_plan(llama, library, 1)
    by_op = {group.ops[0]: group.constants for group in plan.steps["decode"].groups}
    assert by_op["L0.attention"] == by_op["L1.attention"]
    assert by_op["L0.q"] == by_op["L1.q"]


@pytest.mark.parametrize("model", ["llama", "bert"])
def test_every_constant_is_a_number_or_words(model, request):
    graph = request.getfixturevalue(model)
    for op in graph.ops:
        for name, value in op_constants(graph, op).items():
            assert name == name.upper()
            assert value.isdecimal() or value.replace(" ", "").replace("_", "").isalnum()
