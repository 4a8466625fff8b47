"""Target files: what is read, and how every mistake is answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from enginewright.errors import TargetError
from enginewright.target import (
    check_possible,
    json_schema,
    load_target,
    threads_for,
    write_target,
)

TARGETS = sorted((Path(__file__).parents[2] / "targets").glob("*.toml"))
GOOD = """\
name = "small"

[model]
checkpoint = "model.gguf"

[workload]
[[workload.scenario]]
name = "chat"
prompt_tokens = 32
output_tokens = 16

[[accept]]
metric = "decode_tokens_per_s"
comparison = ">="
value = 1.5
against = "naive"

[budget]
wall_minutes = 5
trials = 3
"""


def refusal(tmp_path: Path, old: str, new: str) -> str:
    """The error that a change of the good file gives."""
    assert old in GOOD
    path = tmp_path / "target.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(TargetError) as raised:
        load_target(path)
    return str(raised.value)


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.name)
def test_the_projects_own_targets_are_read(path: Path) -> None:
    assert load_target(path).target.name == path.name.removesuffix(".toml")


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(GOOD)
    target = load_target(path).target
    assert target.numerics.allow == ()
    assert target.hardware.threads == "auto"
    assert threads_for(target) >= 1
    assert not target.is_encoder


def test_a_misspelt_key_is_named_with_its_line_and_the_nearest(tmp_path: Path) -> None:
    text = refusal(tmp_path, "output_tokens", "ouput_tokens")
    assert "target.toml:10: unknown key `workload.scenario.0.ouput_tokens`" in text
    assert "did you mean `output_tokens`?" in text


def test_a_misspelt_table_is_named(tmp_path: Path) -> None:
    assert "did you mean `budget`?" in refusal(tmp_path, "[budget]", "[budgte]")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("prompt_tokens = 32", "prompt_tokens = 0", "`workload.scenario.0.prompt_tokens` is 0"),
        ("prompt_tokens = 32", 'prompt_tokens = "32"', "`workload.scenario.0.prompt_tokens`"),
        ('checkpoint = "model.gguf"', "", "`model.checkpoint` is missing"),
        ('"decode_tokens_per_s"', '"decode_token_per_s"', "did you mean `decode_tokens_per_s`?"),
        ('"decode_tokens_per_s"', '"texts_per_s"', "`accept.0.metric` is 'texts_per_s'"),
        ('against = "naive"', 'against = "vllm"', "`accept.0.against` is 'vllm'"),
        ("value = 1.5", "value = -1.0", "expected more than 0"),
        ("value = 1.5", "value = inf", "`accept.0.value` is inf"),
        ('comparison = ">="', 'comparison = "<="', "use >="),
        ('comparison = ">="', 'comparison = "=="', "`accept.0.comparison` is '=='"),
        ('against = "naive"', 'against = "floor"', "no engine is faster than the floor"),
        ("trials = 3", "trials = 0", "`budget.trials` is 0"),
        ('name = "small"', "name = ", "not TOML"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert expected in refusal(tmp_path, old, new)


def test_bounds_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    both = """
[[accept]]
metric = "regret_nats"
comparison = "<="
value = 0.1

[[accept]]
metric = "decode_tokens_per_s"
comparison = ">="
value = 3.0
against = "floor"

[budget]"""
    assert "no engine is faster than the floor" in refusal(tmp_path, "\n[budget]", both)


def test_a_baseline_needs_a_url_or_a_command(tmp_path: Path) -> None:
    with_baseline = '[[baseline]]\nname = "other"\n\n[budget]'
    assert "needs either `url` or `command`" in refusal(tmp_path, "[budget]", with_baseline)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="enginewright init"):
        load_target(tmp_path / "none.toml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(TargetError, match="not UTF-8 at byte 8"):
        load_target(path)


@pytest.mark.parametrize("is_encoder", [False, True])
def test_init_writes_a_target_that_can_be_read(tmp_path: Path, is_encoder: bool) -> None:
    path = tmp_path / "made.toml"
    what = {"name": "made", "checkpoint": 'C:\\a "b".gguf', "sha256": "0123456789abcdef" * 4}
    write_target(path, **what, is_encoder=is_encoder, context=512)  # type: ignore[arg-type]
    target = load_target(path).target
    assert target.is_encoder == is_encoder
    assert target.model.checkpoint == what["checkpoint"]
    with pytest.raises(TargetError, match="exists already"):
        write_target(path, **what, is_encoder=is_encoder, context=512)  # type: ignore[arg-type]


def test_the_schema_names_every_table() -> None:
    schema = json_schema()
    assert json.dumps(schema)
    assert {"name", "model", "workload", "accept", "numerics", "baseline", "budget"} <= set(
        schema["properties"]
    )


def test_the_line_is_that_of_the_scenario_at_fault(tmp_path: Path) -> None:
    second = """
[[workload.scenario]]
name = "chat"
prompt_tokens = 64
output_tokens = 16

[budget]"""
    text = refusal(tmp_path, "\n[budget]", second)
    assert "target.toml:19: `workload.scenario.1.name` is 'chat' twice" in text


def test_a_wrong_criterion_is_named_with_its_line(tmp_path: Path) -> None:
    text = refusal(tmp_path, 'against = "naive"', 'against = "naif"')
    assert "target.toml:16: `accept.0.against` is 'naif'" in text


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (
            '[numerics]\nallow = ["activations_q8"]\nregret_nats = 1.0',
            "`regret_mean_nats` is missing",
        ),
        ('[numerics]\nallow = ["activation_q8"]', "`numerics.allow.0` is 'activation_q8'"),
        ('[[baseline]]\nname = "naive"\nurl = "http://x:1"', "may not be 'naive'"),
        ('[[baseline]]\nname = "a"\nurl = "localhost:8000"', "write http://HOST:PORT"),
        ('[[baseline]]\nname = "a"\ncommand = ["serve"]', "has no {port}"),
        (
            '[[baseline]]\nname = "a"\nurl = "http://x:1"\n[[accept]]\nmetric = "peak_memory_mib"\n'
            'comparison = "<="\nvalue = 1\nagainst = "a"',
            "cannot be measured",
        ),
        (
            '[[accept]]\nmetric = "regret_nats"\ncomparison = "<="\nvalue = 2.0',
            "[numerics] rejects all beyond",
        ),
        (
            '[[accept]]\nmetric = "start_seconds"\ncomparison = ">="\nvalue = 1\nagainst = "floor"',
            "start_seconds has none",
        ),
        (
            '[[accept]]\nmetric = "ttft_ms"\ncomparison = "<="\nvalue = 0.5\nagainst = "floor"',
            "more of the floor is better",
        ),
        (
            '[[accept]]\nmetric = "floor_share"\ncomparison = ">="\nvalue = 0.5\nagainst = "naive"',
            "stands for itself",
        ),
        (
            '[[accept]]\nmetric = "decode_tokens_per_s"\ncomparison = ">="\nvalue = 2\n'
            'against = "naive"',
            "repeats a criterion",
        ),
    ],
)
def test_sections_that_contradict_the_rest_are_refused(
    tmp_path: Path, added: str, expected: str
) -> None:
    assert expected in refusal(tmp_path, "\n[budget]", f"\n{added}\n\n[budget]")


def test_a_goal_beyond_the_machine_is_refused_with_what_is_possible(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(GOOD.replace('against = "naive"', 'against = "absolute"'))
    target = load_target(path).target
    check_possible(target, {"decode_tokens_per_s": 1.6}, "target.toml")
    check_possible(target, {}, "target.toml")
    with pytest.raises(TargetError, match=r"allow decode_tokens_per_s of 1.4 tokens/s at best"):
        check_possible(target, {"decode_tokens_per_s": 1.4}, "target.toml")


def test_a_checkpoint_beside_the_target_is_found_from_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(GOOD)
    assert load_target(path).target.model.checkpoint == "model.gguf"
    (tmp_path / "model.gguf").touch()
    assert load_target(path).target.model.checkpoint == str(tmp_path / "model.gguf")
