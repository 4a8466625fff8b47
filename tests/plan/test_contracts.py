"""Headers of kernel files: what they promise, and what is said of bad ones."""

import pytest

from enginewright.errors import PlanError
from enginewright.plan import load_library
from enginewright.plan.contracts import compile_pattern, kinds_text
from enginewright.plan.expression import holds


def test_a_sound_header_is_read_whole(with_kernel):
    tried = with_kernel(parameters='{TILE = {values = [1, 2], default = 2, help = "rows"}}')
    kernel = tried.named("tried")
    assert kernel.contract.matrices == ["f32", "f16", "bf16"]
    assert kernel.contract.layout == "stored"
    assert kernel.defaults() == {"TILE": 2}
    assert [path.name for path in kernel.files] == ["tried.rs", "abi.rs"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", '"other"', "name is `other`; expected the file's, `tried`"),
        ("name", None, "contract field `name`"),
        ("pattern", None, "contract field `pattern`"),
        ("pattern", '"rms_nrom"', "unknown op kind `rms_nrom`"),
        ("pattern", '"(linear"', "no regular expression"),
        ("pattern", '"linear [a]"', "only op kinds"),
        ("matrices", '["f31"]', "unknown type `f31`"),
        ("steps", '["training"]', "contract field `steps.0`"),
        ("rows", '["columns"]', "contract field `rows.0`"),
        ("requires", '"avx2"', "contract field `requires`"),
        ("cache", '{dtypes = ["f64"], layouts = []}', "contract field `cache.dtypes.0`"),
        ("matrixes", "[]", "contract field `matrixes`"),
        ("pattern", '"unclosed', "no TOML"),
        ("parameters", '{tile = {values = [1], default = 1, help = ""}}', "not in upper case"),
        ("parameters", '{TILE = {values = [1], default = 2, help = ""}}', "parameter TILE"),
        ("parameters", '{TILE = {values = [-1], default = -1, help = ""}}', "parameter TILE"),
    ],
)
def test_a_bad_header_names_file_and_field(with_kernel, field, value, said):
    with pytest.raises(PlanError) as caught:
        with_kernel(**{field: value})
    assert "tried.rs" in str(caught.value)
    assert said in str(caught.value)


def test_a_misspelt_field_brings_the_nearest_name(with_kernel):
    with pytest.raises(PlanError) as caught:
        with_kernel(matrixes="[]")
    assert caught.value.hint == "did you mean `matrices`?"


def test_a_header_without_end_is_refused(with_kernel):
    with pytest.raises(PlanError, match="no closing fence"):
        with_kernel("//! ```toml\n//! name = 1\n")


def test_a_file_without_a_header_is_no_kernel(with_kernel):
    assert "tried" not in with_kernel("//! Shared code.\n")


def test_an_include_that_is_missing_is_named(with_kernel):
    text = '//! ```toml\n//! name = "tried"\n//! pattern = "add"\n//! steps = ["decode"]\n//! ```\n'
    with pytest.raises(PlanError, match=r"nowhere\.rs"):
        with_kernel(text + '#[path = "nowhere.rs"]\nmod nowhere;\n')


def test_the_digest_covers_what_is_included(with_kernel):
    before = with_kernel()
    shared = before.folder / "abi.rs"
    shared.write_text(shared.read_text() + "\n// Another line.\n")
    after = load_library(before.folder)
    assert after["tried"].source_sha256 != before["tried"].source_sha256


def test_an_empty_folder_is_no_library(tmp_path):
    with pytest.raises(PlanError, match="holds no kernels"):
        load_library(tmp_path)


def test_an_unknown_kernel_brings_the_nearest_name(library):
    with pytest.raises(PlanError) as caught:
        library.named("naive_liner")
    assert caught.value.hint == "did you mean `naive_linear`?"


@pytest.mark.parametrize(
    ("pattern", "kinds", "is_match"),
    [
        ("linear", ["linear"], True),
        ("linear", ["linear", "linear"], False),
        ("rms_norm? linear{1,3}", ["rms_norm", "linear", "linear", "linear"], True),
        ("rms_norm? linear{1,3}", ["linear"] * 4, False),
        ("rms_norm? linear{1,3}", ["rms_norm"], False),
        ("rope{1,2} kv_write|add", ["rope", "rope", "kv_write"], True),
        ("rope{1,2} kv_write|add", ["add"], True),
        ("add", ["silu_mul"], False),
        ("(linear add)* gelu", ["linear", "add", "linear", "add", "gelu"], True),
    ],
)
def test_patterns_match_whole_runs_of_kinds(pattern, kinds, is_match):
    found = compile_pattern(pattern, "tried.rs").fullmatch(kinds_text(kinds))
    assert (found is not None) == is_match


@pytest.mark.parametrize(
    ("constraint", "is_true"),
    [
        ("OP_IN % 32 == 0", True),
        ("OP_IN // 32 > 2", False),
        ("OP_DTYPE in ('f32', 'f16')", True),
        ("OP_DTYPE not in ('f32', 'f16')", False),
        ("ROWS <= 8 and not PARAM_TILE == 3", True),
        ("1 < PARAM_TILE < 4", True),
        ("1 < PARAM_TILE < 2", False),
        ("OP_HEADS == 3", True),
    ],
)
def test_constraints_are_evaluated_and_pass_ops_that_lack_the_name(constraint, is_true):
    names = {"OP_IN": 64, "OP_DTYPE": "f16", "ROWS": 8, "PARAM_TILE": 2}
    assert holds(constraint, names, where="tried.rs") == is_true


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("OP_IN %", "no expression"),
        ("ROW == 1", "unknown `ROW`"),
        ("ROWS.bit_length() == 4", "cannot be evaluated"),
        ("__import__('os')", "unknown `__import__`"),
        ("ROWS % 0 == 1", "cannot be evaluated"),
        ("ROWS ** 9 == 1", "cannot be evaluated"),
    ],
)
def test_a_bad_constraint_is_refused_and_never_run(constraint, said):
    with pytest.raises(PlanError, match=said):
        holds(constraint, {"ROWS": 8}, where="tried.rs")
