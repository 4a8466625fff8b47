"""Builds: whole or not at all, and every failure is a value or names the machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from synthetic_graphs import Form, encoder

from enginewright.errors import MachineError
from enginewright.evaluation import build, compile
from enginewright.evaluation.build import Built, NotBuilt, build_engine
from enginewright.kernel_source import processor_features
from enginewright.plan import Capacity, naive_plan, write_candidate

FEATURES = processor_features()


@pytest.fixture
def candidate(tmp_path: Path, library) -> Path:
    """A naive candidate of a single small kernel, so that builds are quick."""
    graph = encoder(Form())
    plan = naive_plan(graph, library, 1, capacity=Capacity(prefill_rows=4))
    inputs, folder = tmp_path / "inputs", tmp_path / "candidate"
    inputs.mkdir()
    (inputs / "graph.json").write_text(graph.to_json())
    (inputs / "tokenizer.json").write_text("{}")
    write_candidate(plan, library, inputs, folder)
    change_plan(folder, lambda held: held["steps"]["encode"].update(groups=[
        group for group in held["steps"]["encode"]["groups"] if group["kernel"] == "naive_add"
    ]))  # fmt: skip
    return folder


def change_plan(folder: Path, change) -> None:
    held = json.loads((folder / "plan.json").read_text())
    change(held)
    (folder / "plan.json").write_text(json.dumps(held))


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


@pytest.fixture
def built(candidate, tmp_path):
    def run(engine: str = "engine", features=FEATURES):
        return build_engine(candidate, tmp_path / engine, tmp_path / "objects", features)

    return run


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_build_makes_a_whole_engine_and_compiles_alike_groups_once(built, tmp_path):
    first = built()
    assert isinstance(first, Built), first
    assert first.compiled == 1
    plan = json.loads((first.engine / "plan.json").read_text())
    groups = plan["steps"]["encode"]["groups"]
    assert len(groups) == 2
    assert {group["object"] for group in groups} == set(first.objects.values())
    for group in groups:
        assert (first.engine / "kernels" / f"{group['object']}.so").stat().st_size > 0
    assert left_over(tmp_path) == []


def test_the_same_candidate_gives_the_same_engine_from_the_cache(built):
    first, second = built("one"), built("two")
    assert isinstance(first, Built) and isinstance(second, Built)
    assert second.compiled == 0
    assert first.fingerprint == second.fingerprint


def test_a_changed_include_gives_another_object(built, candidate):
    first = built()
    append(candidate / "kernels/naive_rows.rs", "\n// Another line.\n")
    second = built()
    assert isinstance(second, Built)
    assert second.compiled == 1
    assert set(first.objects.values()).isdisjoint(second.objects.values())


def test_an_old_engine_is_replaced_whole(built, tmp_path):
    (tmp_path / "engine/kernels").mkdir(parents=True)
    (tmp_path / "engine/kernels/old.so").write_text("old")
    assert isinstance(built(), Built)
    assert not (tmp_path / "engine/kernels/old.so").exists()
    assert left_over(tmp_path) == []


def test_a_kernel_that_does_not_compile_is_named_with_the_compilers_words(
    built, candidate, tmp_path
):
    assert isinstance(built(), Built)
    before = (tmp_path / "engine/plan.json").read_text()
    append(candidate / "kernels/naive_add.rs", '\nfn broken() -> u32 { "text" }\n')
    result = built()
    assert isinstance(result, NotBuilt)
    assert result.kernel == "naive_add"
    assert "mismatched types" in result.reason
    assert "naive_add.rs" in result.log
    assert (tmp_path / "engine/plan.json").read_text() == before


def test_a_kernel_that_compiles_without_end_is_ended(built, candidate, monkeypatch):
    monkeypatch.setattr(compile, "MOST_COMPILE_SECONDS", 1.0)
    compile.compiler_version()
    append(
        candidate / "kernels/naive_add.rs",
        "\nconst ENDLESS: usize = { let mut n = 0; while n < usize::MAX { n += 1; } n };\n"
        "#[allow(long_running_const_eval)]\nstatic USED: usize = ENDLESS;\n",
    )
    result = built()
    assert isinstance(result, NotBuilt)
    assert "did not compile within 1 s" in result.reason


def test_a_machine_without_rust_is_told_what_to_install(built, monkeypatch, tmp_path):
    compile.compiler_version.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="no Rust compiler") as caught:
        built()
    monkeypatch.undo()
    assert "rustup" in str(caught.value.hint)


def test_a_full_disk_is_the_machines_fault_and_leaves_the_old_engine(built, monkeypatch, tmp_path):
    assert isinstance(built(), Built)
    before = (tmp_path / "engine/plan.json").read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build.shutil, "copyfile", full)
    with pytest.raises(MachineError, match="No space left") as caught:
        built()
    assert caught.value.hint == "free some space"
    assert (tmp_path / "engine/plan.json").read_text() == before
    assert left_over(tmp_path) == []


def test_a_disk_that_fills_under_the_compiler_is_the_machines_fault(built, monkeypatch):
    def full(arguments: list[str], *_: object) -> subprocess.CompletedProcess[str]:
        words = "error: could not write output: No space left on device"
        return subprocess.CompletedProcess(arguments, 1, "", words)

    compile.compiler_version()
    monkeypatch.setattr(compile, "_run_compiler", full)
    with pytest.raises(MachineError, match="no room to compile"):
        built()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: held.update(requires=["avx9"]), "the processor lacks avx9"),
        (lambda held: held.pop("steps"), "is no plan"),
        (
            lambda held: held["steps"]["encode"]["groups"][0].update(kernel="../../etc/passwd"),
            "expected letters, digits and _",
        ),
        (
            lambda held: held["steps"]["encode"]["groups"][0].update(kernel="naive_nothing"),
            "naive_nothing",
        ),
        (
            lambda held: held["steps"]["encode"]["groups"][0].update(constants={"EW_ROWS": 4}),
            "malformed",
        ),
    ],
)
def test_a_candidate_that_is_no_candidate_is_refused_before_the_compiler(
    built, candidate, change, said
):
    change_plan(candidate, change)
    result = built()
    assert isinstance(result, NotBuilt)
    assert said in result.reason


def test_constants_of_our_own_environment_do_not_reach_kernels(built, monkeypatch):
    first = built("one")
    monkeypatch.setenv("EW_OP0_WIDTH", "7")
    second = built("two")
    assert isinstance(first, Built) and isinstance(second, Built)
    assert first.fingerprint == second.fingerprint
