import json

import pytest

from enginewright.cli import main
from enginewright.retention import Archive, CandidateRecord


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEWRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def call(home, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        said = capsys.readouterr()
        return stopped.value.code, said.out, said.err

    return run


def test_reading_without_an_archive_ends_with_a_hint_and_makes_nothing(call, home):
    code, out, err = call("log")
    assert (code, out) == (2, "")
    assert "error: " in err and "hint: run `enginewright build" in err
    assert not home.exists()


def test_an_unknown_command_is_one_line_and_no_traceback(call):
    code, _, err = call("frob")
    assert code == 2
    assert err.startswith("error: No such command 'frob'") and "Traceback" not in err


def test_a_missing_checkpoint_has_the_exit_code_of_checkpoints(call):
    code, out, err = call("inspect", "/nowhere.gguf", "--json")
    assert (code, out) == (3, "") and "hint: " in err


def test_log_and_show_tell_what_the_archive_holds(call, home):
    archive = Archive(home / "archive.sqlite")
    run = archive.start_run({}, "digest").id
    trial = archive.add_candidate(
        CandidateRecord(
            id="c0", run=run, parent=None, tactic="naive", hypothesis="states the meaning",
            predicted_effect=1.0, plan_sha256="0" * 64,
        ),
        "naive",
    ).id  # fmt: skip
    code, out, _ = call("log", "--json")
    assert code == 0
    (row,) = json.loads(out)["trials"]
    assert (row["id"], row["tactic"], row["verdict"]) == (trial, "naive", None)
    code, out, _ = call("show", trial, "--json")
    assert code == 0 and json.loads(out)["lineage"] == ["c0"]
    assert call("show", "t-none")[0] == 7
    assert call("log", "r-none")[0] == 2


def test_doctor_without_a_compiler_says_what_to_install(call, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ENGINEWRIGHT_ENGINE", str(tmp_path / "none"))
    code, out, _ = call("doctor", "--json")
    assert code == 5
    held = {check["name"]: check for check in json.loads(out)["checks"]}
    assert not held["rustc"]["ok"] and "rustup" in held["rustc"]["hint"]
    assert "make setup" in held["engine host"]["hint"]
