"""The benchmarks' own promises: tables come from results, disturbed blocks never count, and what is
missing is said before anything runs."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from enginewright.evaluation.contention import Contention

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Imports a benchmark script by name, and forgets it afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(BENCHMARKS):
            del sys.modules[name]


def write_result(folder):
    folder.mkdir()
    row = {"quantity": "decode (tokens/s)", "ours": 200.0, "peer": 100.0, "ratio": 2.0,
           "low": 1.9, "high": 2.1, "blocks": 15}  # fmt: skip
    machine = {"processor": "P", "cores": 2, "kernel": "6", "load_average": [0.1, 0.2, 0.3],
               "time": "2026-01-02T03:04:05Z"}  # fmt: skip
    record = {"threads": 2, "peer": "llama.cpp, flash attention on", "machine": machine}
    record |= {
        "contended_blocks": 1,
        "contention": [{"other_share": 0.021, "steal_share": 0.0}],
    }
    (folder / "a.2-threads.json").write_text(json.dumps({**record, "comparisons": [row]}))


def test_the_readme_has_the_tables_of_the_results(script):
    tables = script("tables")
    readme = tables.README.read_text()
    wanted = tables.with_tables(readme, tables.all_tables(BENCHMARKS / "results"))
    assert readme == wanted, "run `python benchmarks/tables.py`"


def test_tables_tell_machine_load_and_every_comparison(script, tmp_path):
    write_result(tmp_path / "results")
    told = script("tables").all_tables(tmp_path / "results")
    assert "### a, 2 threads" in told
    assert "load average at the end (1, 5, 15 minutes): 0.10, 0.20, 0.30" in told
    assert "took at most 2.1% of the processors" in told
    assert "1 disturbed block repeated" in told
    assert "| decode (tokens/s) | 200 | 100 | 2.00 | 1.90 – 2.10 | 15 |" in told


def test_a_finished_run_becomes_a_line_of_the_factorys_table(script, tmp_path):
    factory, run = script("factory"), tmp_path / "r1"
    run.mkdir()
    (run / "machine.json").write_text(json.dumps({"processor": "P", "cores": 2, "kernel": "L"}))
    with pytest.raises(SystemExit, match="the run has not finished"):
        factory.record_of(run)
    (run / "result.json").write_text(
        json.dumps(
            {
                "run": "r1", "target": "tiny", "acceptance": [],
                "speedup": {"value": 9.0, "low": 8.0, "high": 10.0},
                "floor_share": {"value": 0.5, "low": None, "high": None},
                "trials": {"kept": 1, "rejected": 2, "void": 3},
                "timings": {
                    "wall_seconds": 300.0, "own_share": 0.021,
                    "seconds_per_candidate": {"build": 1.5, "kernel_check": 2.0, "trial": 30.0},
                },
            }
        )
    )  # fmt: skip
    told = script("tables").factory_table([factory.record_of(run)])
    line = "| tiny | 9.00 (8.00 – 10.00) | 50% | 1, 2, 3 | 1.5, 2.0, 30.0 | 5.0 min | 2.1% |"
    assert line in told
    assert "P, 2 cores, L; run r1, " in told


def test_a_readme_without_markers_is_refused(script):
    with pytest.raises(SystemExit, match="hint: put them back"):
        script("tables").with_tables("nothing", "")


def run_with(quiet, monkeypatch, shares, *, allow):
    told = iter(shares)

    class Window:
        def close(self, *, known_cpu_seconds):
            assert known_cpu_seconds >= 0
            return Contention(seconds=1.0, other_share=next(told), steal_share=0.0)

    monkeypatch.setattr(quiet, "CpuWindow", Window)
    return quiet.run_blocks(
        lambda number: {"ours": {"time": float(number)}}, blocks=3, is_contention_allowed=allow
    )


def test_disturbed_blocks_are_repeated_and_never_counted(script, monkeypatch):
    done = run_with(script("quiet"), monkeypatch, [0.5, 0.0, 0.2, 0.0, 0.0], allow=False)
    assert done.samples["ours"]["time"] == [1.0, 3.0, 4.0]
    assert done.contended == 2


def test_a_machine_that_is_never_quiet_ends_the_benchmark(script, monkeypatch):
    quiet = script("quiet")
    with pytest.raises(SystemExit, match="error: 4 blocks were disturbed"):
        run_with(quiet, monkeypatch, [0.5] * 9, allow=False)
    done = run_with(quiet, monkeypatch, [0.5] * 9, allow=True)
    assert done.samples["ours"]["time"] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["--llama-python", "/nowhere/python"], "/nowhere/python: the peer's Python is missing",
         "pip install --no-binary llama-cpp-python"),
        (["--llama-python", sys.executable], "cannot import llama_cpp", "CMAKE_ARGS="),
        (["--only", "encoder", "--onnxruntime-python", "/nowhere/python"],
         "/nowhere/python: the peer's Python is missing", "benchmarks/peers/onnxruntime.txt"),
    ],
)  # fmt: skip
def test_a_missing_peer_is_said_before_anything_runs(
    script, monkeypatch, capsys, arguments, said, hint
):
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        script("run").main()
    assert ended.value.code == 5
    told = capsys.readouterr().err
    assert said in told
    assert hint in told


def test_pinned_versions_are_those_that_run_checks(script):
    run = script("run")
    pins = {name: (BENCHMARKS / f"peers/{name}.txt").read_text().splitlines()
            for name in ("llama_cpp", "onnxruntime", "export")}  # fmt: skip
    assert f"llama-cpp-python=={run.LLAMA_CPP.version}" in pins["llama_cpp"]
    assert f"onnxruntime=={run.ONNXRUNTIME.version}" in pins["onnxruntime"]
    assert f"onnxruntime=={run.ONNXRUNTIME.version}" in pins["export"]


def test_a_shapes_answers_are_compared_row_by_row(script):
    import numpy as np

    minilm = script("minilm_onnxruntime")
    one = np.eye(3, dtype=np.float32)
    turned = one.copy()
    turned[2] = [0.6, 0.0, 0.8]
    assert minilm.least_cosine([one, one], [one, turned]) == pytest.approx(0.8)


def test_all_arms_of_a_block_get_the_same_sequences_and_no_other_block_does(script):
    minilm = script("minilm_onnxruntime")

    class Arm:
        def __init__(self):
            self.seen = []

        def encode(self, sequences):
            self.seen.append(sequences)
            return script("encoder_arms").Encoded(seconds=0.25, embeddings=None)

    first, second, later = Arm(), Arm(), Arm()
    found, _ = minilm.measure(first, "7.0")
    minilm.measure(second, "7.0")
    minilm.measure(later, "7.1")
    assert first.seen == second.seen
    assert all(sequences not in first.seen for sequences in later.seen)
    assert found == {minilm.quantity(*shape): 250.0 for shape in minilm.SHAPES}
