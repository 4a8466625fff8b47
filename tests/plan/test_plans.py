"""Plans: naive ones, their text, their edits and the rules that a plan can break."""

import json
from pathlib import Path

import pytest

from enginewright.errors import MachineError, PlanError
from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.plan import (
    Allowed,
    CachePlan,
    Capacity,
    Choice,
    Group,
    Plan,
    candidates_for,
    check_group,
    check_plan,
    load_library,
    naive_plan,
    regroup,
    write_candidate,
)
from enginewright.plan.choices import replace_groups, with_settings
from enginewright.settings import load_settings

ALL = Allowed(
    features=frozenset({"avx2", "fma", "f16c"}), numerics=frozenset({"activations_q8", "cache_f16"})
)
NONE = Allowed(features=frozenset(), numerics=frozenset())


@pytest.fixture
def plan(llama, library):
    return naive_plan(llama, library, 2, capacity=Capacity(prefill_rows=16, context=64))


@pytest.mark.parametrize("model", ["llama", "bert"])
def test_a_naive_plan_covers_every_op_once_and_is_legal_anywhere(model, request, library):
    graph = request.getfixturevalue(model)
    plan = naive_plan(graph, library, 2)
    check_plan(plan, graph, library, NONE)
    for step in plan.steps.values():
        assert [op for group in step.groups for op in group.ops] == [op.id for op in graph.ops]
        assert all(group.kernel.startswith("naive_") for group in step.groups)
    assert (plan.requires, plan.numerics) == ((), ())


def test_a_capacity_below_one_is_refused(llama, library):
    with pytest.raises(PlanError, match="at least 1"):
        naive_plan(llama, library, 2, capacity=Capacity(slots=0))


def test_an_op_without_a_cuda_kernel_is_named():
    folder = Path(__file__).resolve().parent.parent / "goldens/tiny/qwen3_5_dense"
    graph = build_graph(read_checkpoint(folder))
    with pytest.raises(PlanError, match="no kernel `naive_zero_centred_norm` on cuda") as error:
        naive_plan(graph, load_library(load_settings().cuda_kernels), 1)
    assert "for the CPU" in (error.value.hint or "")


def test_a_context_ends_where_the_model_ends(llama, library):
    plan = naive_plan(llama, library, 2, capacity=Capacity(context=1 << 20))
    assert plan.cache.capacity == llama.dimensions.context


def test_a_plan_survives_its_text(plan):
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.to_json() == plan.to_json()
    assert again.sha256 == plan.sha256


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("threads", 0, "field `threads`"),
        ("threads", "2", "field `threads`"),
        ("format", "enginewright.plan/9", "field `format`"),
        ("colour", 1, "field `colour`"),
        ("cache", {"dtype": "f8"}, "field `cache.dtype`"),
        ("steps", {"training": {}}, "field `steps"),
    ],
)
def test_a_malformed_plan_names_its_field(plan, field, value, said):
    held = json.loads(plan.to_json()) | {field: value}
    with pytest.raises(PlanError, match=said):
        Plan.from_json(json.dumps(held))


def test_text_that_is_no_json_is_no_plan():
    with pytest.raises(PlanError, match="the whole"):
        Plan.from_json("{")


def broken(plan: Plan, change) -> Plan:
    """The plan with its decode groups changed, and nothing worked out anew."""
    step = plan.steps["decode"]
    groups = tuple(change(list(step.groups)))
    return plan.model_copy(
        update={"steps": {**plan.steps, "decode": step.model_copy(update={"groups": groups})}}
    )


def renamed(group: Group, **changes) -> Group:
    return group.model_copy(update=changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda groups: groups[:-1], "no group computes op `logits`"),
        (lambda groups: [*groups, groups[0]], "is computed 2 times"),
        (lambda groups: [renamed(groups[0], ops=("eyes",)), *groups[1:]], "unknown op `eyes`"),
        (lambda groups: [*groups[:-1], renamed(groups[-1], id="g0")], "two groups are called `g0`"),
        (lambda groups: groups[::-1], "before it is written"),
        (
            lambda groups: sorted(groups, key=lambda group: group.kernel == "naive_kv_write"),
            "reads its cache before it is written",
        ),
        (
            lambda groups: [renamed(groups[0], kernel="naive_nothing"), *groups[1:]],
            "no kernel `naive_nothing`",
        ),
        (lambda groups: [renamed(groups[0], kernel="naive_add"), *groups[1:]], "do not match"),
        (
            lambda groups: [renamed(groups[0], parameters={"TILE": 1}), *groups[1:]],
            "unknown parameter `TILE`",
        ),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused(plan, llama, library, change, said):
    with pytest.raises(PlanError, match=said):
        check_plan(broken(plan, change), llama, library, ALL)


def test_a_plan_of_another_graph_is_refused(plan, bert, library):
    with pytest.raises(PlanError, match="the plan is for graph"):
        check_plan(plan, bert, library, ALL)


def test_a_plan_without_a_step_is_refused(plan, llama, library):
    short = plan.model_copy(update={"steps": {"decode": plan.steps["decode"]}})
    with pytest.raises(PlanError, match=r"steps are \['decode'\]"):
        check_plan(short, llama, library, ALL)


def test_numerics_and_features_must_be_permitted(plan, llama, library):
    half = CachePlan(dtype="f16", layout="position_major", capacity=64, slots=2)
    changed = with_settings(plan, llama, library, cache=half)
    assert changed.numerics == ("cache_f16",)
    check_plan(changed, llama, library, ALL)
    with pytest.raises(PlanError, match="numerics: cache_f16 not permitted"):
        check_plan(changed, llama, library, NONE)
    wide = plan.model_copy(update={"requires": ("avx9",)})
    with pytest.raises(PlanError, match="requires: avx9 not permitted"):
        check_plan(wide, llama, library, ALL)


def try_group(graph: Graph, plan: Plan, library, *ops: str) -> None:
    """Check the group in which kernel `tried` computes `ops` of a decode step."""
    choice = Choice(ops=ops, kernel="tried")
    changed = regroup(plan, graph, library, step="decode", choices=[choice])
    step = changed.steps["decode"]
    group = next(group for group in step.groups if group.ops == ops)
    check_group(group, "decode", step, graph=graph, library=library, cache=changed.cache)


def test_a_fused_group_that_keeps_its_contract_is_legal(plan, llama, with_kernel):
    try_group(llama, plan, with_kernel(), "L0.norm", "L0.q", "L0.k", "L0.v")


@pytest.mark.parametrize(
    ("fields", "ops", "said"),
    [
        ({"steps": '["prefill"]'}, ("L0.q",), "serves prefill, not decode"),
        ({"rows": '["selected"]'}, ("L0.q",), "rows are tokens"),
        ({"matrices": '["q4_1"]'}, ("L0.q",), "is stored as f16; it takes q4_1"),
        ({"constraints": '["OP_OUT == 1"]'}, ("L0.q",), "constraint `OP_OUT == 1` does not hold"),
        ({"pattern": '"kv_write"'}, ("L0.cache",), "its contract does not mention"),
        (
            {"pattern": '"kv_write"', "cache": '{dtypes = ["f16"], layouts = ["head_major"]}'},
            ("L0.cache",),
            "the cache is f32, position_major",
        ),
        ({"pattern": '"linear linear"'}, ("L0.q", "L0.o"), "read different inputs"),
        ({"pattern": '"linear add"'}, ("L0.q", "L0.ffn_add"), "reads nothing that the group made"),
        ({"pattern": '"add rms_norm"'}, ("L0.add", "L0.ffn_norm"), "read outside"),
        ({"pattern": '"attention attention"'}, ("L0.attention", "L1.attention"), "expected one"),
    ],
)
def test_a_group_that_breaks_its_contract_is_refused(plan, llama, with_kernel, fields, ops, said):
    cache = fields.get("cache") or (
        '{dtypes = ["f32"], layouts = ["position_major"]}' if "attention" in ops[0] else None
    )
    library = with_kernel(**{**fields, "cache": cache})
    with pytest.raises(PlanError, match=said):
        try_group(llama, plan, library, *ops)


def test_ropes_of_queries_and_keys_may_stand_side_by_side(plan, llama, with_kernel):
    library = with_kernel(
        pattern='"rope rope kv_write"',
        cache='{dtypes = ["f32"], layouts = ["position_major"]}',
    )
    try_group(llama, plan, library, "L0.rope_q", "L0.rope_k", "L0.cache")


def test_two_choices_cannot_claim_one_op(plan, llama, library):
    choice = Choice(ops=("L0.q",), kernel="naive_linear")
    with pytest.raises(PlanError, match="claimed by two choices"):
        regroup(plan, llama, library, step="decode", choices=[choice, choice])


def test_candidates_are_only_what_machine_and_target_permit(plan, llama, library):
    def names(allowed):
        found = candidates_for(plan, llama, library, step="decode", ops=("L0.q",), allowed=allowed)
        return {choice.kernel for choice in found}

    assert names(NONE) == {"naive_linear"}
    assert names(ALL) == {"naive_linear", "float_linear_avx2"}


def test_groups_are_numbered_in_order_after_an_edit(plan, llama, library):
    groups = plan.steps["decode"].groups
    again = replace_groups(plan, llama, library, step="decode", groups=groups)
    assert [group.id for group in again.steps["decode"].groups] == [
        f"g{number}" for number in range(len(groups))
    ]


def test_a_candidate_has_everything_that_a_build_needs(plan, llama, library, tmp_path):
    inputs, folder = tmp_path / "inputs", tmp_path / "candidate"
    inputs.mkdir()
    (inputs / "graph.json").write_text(llama.to_json())
    (inputs / "tokenizer.json").write_text("{}")
    write_candidate(plan, library, inputs, folder)
    assert {path.name for path in folder.iterdir()} == {
        "graph.json", "tokenizer.json", "plan.json", "kernels"
    }  # fmt: skip
    assert Plan.from_json((folder / "plan.json").read_text()) == plan
    kernels = {path.name for path in (folder / "kernels").iterdir()}
    assert {"naive_linear.rs", "naive_stored.rs", "abi.rs"} <= kernels
    assert "float_linear_avx2.rs" not in kernels


def test_a_candidate_that_cannot_be_written_says_where(plan, library, tmp_path):
    (tmp_path / "candidate").write_text("in the way")
    with pytest.raises(MachineError, match="candidate"):
        write_candidate(plan, library, tmp_path, tmp_path / "candidate")
