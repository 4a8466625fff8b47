"""Changes of a plan, and submissions that are named by what they hold."""

import json
from dataclasses import replace

import pytest
from replay import LIBRARY, Place, subject_of

from enginewright.errors import PlanError, UsageError
from enginewright.plan import naive_plan
from enginewright.swarm.agents.shelf import Shelf
from enginewright.variation.agents.change import Change, apply_change, read_change
from enginewright.variation.agents.redaction import Redactor
from enginewright.variation.agents.submission import Claim, Submission, read_claim, seal

KERNEL = """\
//! y = gate / (1 + exp(-gate)) * up; float32.
//!
//! ```toml
//! name = "silu_rows"
//! pattern = "silu_mul"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "my_curve.rs"]
mod curve;
"""


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    return subject_of(Place(tmp_path_factory.mktemp("place")).loaded(), print)


@pytest.fixture
def plan(subject):
    return naive_plan(subject.graph, subject.library, 1)


def change(*uses, **settings):
    return read_change(json.dumps({"uses": list(uses), "settings": settings}))


def use(kernel, ops, step="decode", **parameters):
    return {"step": step, "ops": list(ops), "kernel": kernel, "parameters": parameters}


def silu_ops(subject):
    return [op.id for op in subject.graph.ops if op.kind == "silu_mul"]


def test_a_kernel_for_one_run_of_ops_serves_every_run_like_it(subject, plan):
    first, *others = silu_ops(subject)
    assert others
    wanted = change(use("naive_silu_mul", [first]), pool={"spin_microseconds": 7, "pin": False})
    changed = apply_change(wanted, plan, subject.graph, LIBRARY, subject.allowed)
    kernels = {g.ops: g.kernel for g in changed.steps["decode"].groups}
    assert all(kernels[op,] == "naive_silu_mul" for op in [first, *others])
    assert changed.pool.spin_microseconds == 7 and changed.sha256 != plan.sha256


def test_a_change_that_does_not_fit_says_why(subject, plan):
    ids = [op.id for op in subject.graph.ops]
    silu = silu_ops(subject)[0]
    for wanted, words in (
        (use("naive_silu", [silu]), "naive_silu_mul"),
        (use("naive_silu_mul", ["L0.nothing"]), "unknown op"),
        (use("naive_silu_mul", [ids[0], ids[3]]), "no neighbours"),
        (use("naive_silu_mul", [silu], step="encode"), "the plan has prefill, decode"),
        (use("naive_add", [silu]), "do not match its pattern"),
        (use("elementwise_avx2", [silu]), "not permitted"),
        (use("naive_silu_mul", [silu], TILE=3), "unknown parameter"),
    ):
        with pytest.raises(PlanError) as raised:
            apply_change(change(wanted), plan, subject.graph, LIBRARY, subject.allowed)
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ('{"use": []}', "`use`"), ('{"uses": [{"step": "x"}]}', "uses.0.step"),
     ('{"settings": {"threads": 64}}', "settings.threads"), ("[]", "the whole"),
     ('{"uses": [{"step": "decode", "ops": [], "kernel": "k"}]}', "uses.0.ops")],
)  # fmt: skip
def test_a_change_of_another_form_is_refused(text, words):
    with pytest.raises(UsageError) as raised:
        read_change(text)
    assert words in raised.value.message


def test_sealed_kernels_carry_their_digest_and_what_they_include_of_the_agents(tmp_path):
    own = {"silu_rows.rs": KERNEL, "my_curve.rs": "// a curve\n", "unused.rs": "// no\n"}
    draft = seal(own, change(use("silu_rows", ["L0.silu_mul"])))
    sealed = draft.names["silu_rows"]
    assert set(draft.kernels) == {f"{sealed}.rs", f"{draft.names['my_curve']}.rs"}
    text = draft.kernels[f"{sealed}.rs"]
    assert f'name = "{sealed}"' in text and f'#[path = "{draft.names["my_curve"]}.rs"]' in text
    assert '#[path = "abi.rs"]' in text
    assert draft.change.uses[0].kernel == sealed
    other = seal(own | {"my_curve.rs": "// another\n"}, change(use("silu_rows", ["L0.silu_mul"])))
    assert other.names["silu_rows"] != sealed
    shelf = Shelf(tmp_path / "kernels", LIBRARY)
    assert sealed in shelf.draft(draft.kernels) and sealed not in shelf.library
    shelf.add(draft.kernels)
    assert sealed in shelf.library and list(shelf.added) == [sealed]


def test_a_header_with_another_name_than_the_files_is_refused():
    own = {"silu_fast.rs": KERNEL}
    with pytest.raises(UsageError, match="silu_rows"):
        seal(own, change(use("silu_fast", ["L0.silu_mul"])))


def test_nothing_changed_is_no_submission():
    with pytest.raises(UsageError, match="changes nothing"):
        seal({"silu_rows.rs": KERNEL}, Change())


def test_a_kernel_may_include_the_library_and_its_own_files_only(tmp_path):
    shelf = Shelf(tmp_path / "kernels", LIBRARY)
    shelf.add({"other_11111111.rs": "// of another submission\n"})
    for included in ("../../secret.rs", "/etc/passwd", "other_11111111.rs", "nowhere.rs"):
        bad = KERNEL.replace("silu_rows", "bad_22222222").replace("my_curve.rs", included)
        with pytest.raises(PlanError):
            shelf.draft({"bad_22222222.rs": bad})


def test_a_submission_reads_back_as_it_was_written():
    draft = seal(
        {"silu_rows.rs": KERNEL, "my_curve.rs": ""}, change(use("silu_rows", ["L0.silu_mul"]))
    )
    held = Submission(
        agent="coder:a", kernels=draft.kernels, change=draft.change,
        claim=Claim(hypothesis="é", predicted_effect=1.1),
    )  # fmt: skip
    assert Submission.from_json(held.to_json()) == held
    assert replace(held, agent="guest:b").to_json() != held.to_json()


@pytest.mark.parametrize("effect", [True, "1.5", 0.0, -1, float("nan"), float("inf"), None, 1e9])
def test_a_prediction_is_a_ratio(effect):
    with pytest.raises(UsageError, match="predicted_effect"):
        read_claim("why", effect, Redactor())


def test_a_hypothesis_is_a_short_line_without_secrets():
    key = "sk-" + "a" * 30
    claim = read_claim(f"faster\n\nsince {key} and hunter2-hunter2 " + "x" * 5000, 1,
                       Redactor(["hunter2-hunter2"]))  # fmt: skip
    assert claim.hypothesis.startswith("faster since [redacted] and [redacted] x")
    assert len(claim.hypothesis) == 1000
    with pytest.raises(UsageError, match="hypothesis"):
        read_claim("  ", 1.0, Redactor())
