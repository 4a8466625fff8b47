"""The benchmarks' own promises: tables come from results, and what is missing is said first."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def python(code_or_script, *arguments, code=False):
    command = [sys.executable, *(["-c"] if code else []), str(code_or_script), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=BENCHMARKS, timeout=120, check=False
    )


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


def test_the_readme_has_the_tables_of_the_results():
    done = python(BENCHMARKS / "tables.py", "--check")
    assert done.returncode == 0, done.stderr


def test_tables_tell_machine_load_and_every_comparison(tmp_path):
    write_result(tmp_path / "results")
    code = "import sys, pathlib, tables; print(tables.all_tables(pathlib.Path(sys.argv[1])))"
    done = python(code, str(tmp_path / "results"), code=True)
    assert done.returncode == 0, done.stderr
    assert "### a, 2 threads" in done.stdout
    assert "load average at the end (1, 5, 15 minutes): 0.10, 0.20, 0.30" in done.stdout
    assert "took at most 2.1% of the processors" in done.stdout
    assert "1 disturbed block repeated" in done.stdout
    assert "| decode (tokens/s) | 200 | 100 | 2.00 | 1.90 – 2.10 | 15 |" in done.stdout


def test_a_finished_run_becomes_a_line_of_the_factorys_table(tmp_path):
    run = tmp_path / "r1"
    run.mkdir()
    (run / "machine.json").write_text(json.dumps({"processor": "P", "cores": 2, "kernel": "L"}))
    done = python("import sys, pathlib, factory; factory.record_of(pathlib.Path(sys.argv[1]))",
                  str(run), code=True)  # fmt: skip
    assert done.returncode == 1
    assert "the run has not finished" in done.stderr
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
    code = (
        "import sys, pathlib, factory, tables;"
        "print(tables.factory_table([factory.record_of(pathlib.Path(sys.argv[1]))]))"
    )
    done = python(code, str(run), code=True)
    line = "| tiny | 9.00 (8.00 – 10.00) | 50% | 1, 2, 3 | 1.5, 2.0, 30.0 | 5.0 min | 2.1% |"
    assert line in done.stdout, done.stderr
    assert "P, 2 cores, L; run r1, " in done.stdout


def test_a_readme_without_markers_is_refused():
    done = python("import tables; tables.with_tables('nothing', '')", code=True)
    assert done.returncode == 1
    assert "hint: put them back" in done.stderr


BLOCKS = """
import quiet
from enginewright.evaluation.contention import Contention
shares = iter([0.5, 0.0, 0.2, 0.0, 0.0] if {calm} else [0.5] * 9)

class Window:
    def close(self, *, known_cpu_seconds):
        assert known_cpu_seconds >= 0
        return Contention(seconds=1.0, other_share=next(shares), steal_share=0.0)

quiet.CpuWindow = Window
done = quiet.run_blocks(
    lambda number: dict(ours=dict(time=float(number))), blocks=3, is_contention_allowed={allow}
)
print(done.samples["ours"]["time"], done.contended)
"""


def test_disturbed_blocks_are_repeated_and_never_counted():
    done = python(BLOCKS.format(calm=True, allow=False), code=True)
    assert done.stdout.strip() == "[1.0, 3.0, 4.0] 2", done.stderr


def test_a_machine_that_is_never_quiet_ends_the_benchmark():
    done = python(BLOCKS.format(calm=False, allow=False), code=True)
    assert done.returncode == 1
    assert "error: 4 blocks were disturbed" in done.stderr
    done = python(BLOCKS.format(calm=False, allow=True), code=True)
    assert done.stdout.strip() == "[0.0, 1.0, 2.0] 0", done.stderr


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["--llama-python", "/nowhere/python"], "/nowhere/python: the peer's Python is missing",
         "pip install --no-binary llama-cpp-python"),
        (["--llama-python", sys.executable], "cannot import llama_cpp", "CMAKE_ARGS="),
        (["--only", "encoder", "--onnxruntime-python", "/nowhere/python"],
         "/nowhere/python: the peer's Python is missing",
         "benchmarks/peers/onnxruntime.txt"),
    ],
)  # fmt: skip
def test_a_missing_peer_is_said_before_anything_runs(arguments, said, hint):
    done = python(BENCHMARKS / "run.py", *arguments)
    assert done.returncode == 5
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_pinned_versions_are_those_that_run_checks():
    code = (
        "import run; print(run.LLAMA_CPP.package, run.LLAMA_CPP.version);"
        "print(run.ONNXRUNTIME.package, run.ONNXRUNTIME.version)"
    )
    told = python(code, code=True).stdout.split()
    pins = (BENCHMARKS / "peers/llama_cpp.txt").read_text()
    assert f"llama-cpp-python=={told[1]}" in pins
    assert f"onnxruntime=={told[3]}" in (BENCHMARKS / "peers/onnxruntime.txt").read_text()
    assert f"onnxruntime=={told[3]}" in (BENCHMARKS / "peers/export.txt").read_text()
