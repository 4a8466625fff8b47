"""The judge as a process: folders in, signed verdicts out, and nothing believed of anybody else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_fakes import SETTINGS

import enginewright.evaluation.harness as harness
import enginewright.evaluation.judge as judge_module
from enginewright.errors import EngineError, InternalError, UsageError
from enginewright.evaluation.judge import Judge, TrialQuestion
from enginewright.evaluation.judge_case import JudgeCase, case_from_json
from enginewright.evaluation.judge_client import JudgeGone, JudgeProcess
from enginewright.model import Graph
from enginewright.target import Machine, Target

HERE = Path(__file__).resolve().parent

PROGRAM = """#!{python}
import json, sys
from pathlib import Path

sys.path[:0] = [{exploits!r}]
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
settings = (Path(arguments["--engine"]) / "fake.json").read_text()
sys.argv = ["cheating_engine.py", settings, "--listen-fd", arguments["--listen-fd"]]
import cheating_engine

cheating_engine.main()
"""

MakeEngine = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A host program that serves fake engines, as their folders say."""
    path = tmp_path / "engine-program"
    path.write_text(PROGRAM.format(python=sys.executable, exploits=str(HERE / "exploits")))
    path.chmod(0o755)
    return path


@pytest.fixture
def make_engine(tmp_path: Path, decoder_graph: Graph, tokenizer_file: Path) -> MakeEngine:
    """Writes an engine folder whose server has one trick."""

    def make(name: str, trick: str = "none", **settings: Any) -> Path:
        folder = tmp_path / name
        (folder / "kernels").mkdir(parents=True)
        plan = {
            "pool": {"spin_microseconds": 1, "pin": True},
            "memory": {"huge_pages": False},
            "cache": {"dtype": "f32"},
            "numerics": [],
            "name": name,
            "steps": {"decode": {"groups": [{"object": "aa", "kernel": "k"}]}},
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "graph.json").write_text(decoder_graph.to_json())
        shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
        facts = {
            "plan": hashlib.sha256((folder / "plan.json").read_bytes()).hexdigest(),
            "graph": hashlib.sha256((folder / "graph.json").read_bytes()).hexdigest(),
            "device": "cpu", "spin_microseconds": 1, "pin": True, "huge_pages": False,
            "cache": {"dtype": "f32"}, "numerics": [], "prefix_cache": False, "objects": ["aa"],
        }  # fmt: skip
        (folder / "facts.json").write_text(json.dumps(facts))
        given = {"trick": trick, "given": {"facts": str(folder / "facts.json")}, **settings}
        (folder / "fake.json").write_text(json.dumps(given))
        return folder

    return make


@pytest.fixture
def case(
    decoder_target: Target, machine: Machine, program: Path, make_engine: MakeEngine, tmp_path: Path
) -> JudgeCase:
    return JudgeCase(
        target=decoder_target, machine=machine, program=program, reference=make_engine("reference"),
        checkpoint=tmp_path, weights=tmp_path, threads=1, sandbox=None, settings=SETTINGS,
    )  # fmt: skip


@pytest.fixture
def judge(case: JudgeCase, tmp_path: Path) -> Iterator[JudgeProcess]:
    running = JudgeProcess(case, tmp_path / "judge.log")
    yield running
    running.close()


def test_a_case_survives_its_journey_as_json(case: JudgeCase) -> None:
    assert case_from_json(json.loads(json.dumps(case.to_json()))) == case


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "expected 'enginewright.judge/1'"),
        ({"threads": "many"}, "cannot be read"),
        ({"settings": {}}, "lacks 'looks'"),
        ({"target": {"name": "x"}}, "cannot be read"),
    ],
)
def test_a_case_that_cannot_be_read_is_refused_by_name(
    case: JudgeCase, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        case_from_json({**json.loads(json.dumps(case.to_json())), **change})
    assert refused.value.hint is not None


def test_folders_go_in_and_a_signed_verdict_comes_out(
    judge: JudgeProcess, make_engine: MakeEngine, tmp_path: Path
) -> None:
    champion = str(make_engine("champion", prompt_seconds=0.1))
    work = str(tmp_path / "work")
    good = judge.ask("trial", champion=champion, candidate=str(make_engine("faster")), work=work)
    assert good["verdict"] == "kept", good["headline"]
    told = good["evidence"]["harness"]
    assert told["before"] == told["after"] == harness.harness_sha256()
    wrong = judge.ask(
        "trial", champion=champion, candidate=str(make_engine("zeros", "zeros")), work=work
    )
    assert wrong["headline"].startswith("rejected: wrong")


def test_engines_are_measured_side_by_side(
    judge: JudgeProcess, make_engine: MakeEngine, tmp_path: Path
) -> None:
    slow, fast = make_engine("slow", prompt_seconds=0.1), make_engine("fast")
    found = judge.ask(
        "measure", arms={"slow": str(slow), "fast": str(fast)}, blocks=3,
        work=str(tmp_path / "work"), required=["slow"], compared_to="slow",
    )  # fmt: skip
    assert found["failed"] == {}
    assert found["ratios"].keys() == {"fast"}
    assert found["ratios"]["fast"]["low"] > 1.0
    assert len(found["ratios"]["fast"]["log_ratios"]) == 3


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"question": "promote"}, "asked for 'promote'; it knows trial"),
        ({"question": "trial", "work": "w", "candidate": "x"}, "lacks 'champion'"),
    ],
)
def test_a_question_that_is_not_whole_is_refused(
    judge: JudgeProcess, asked: dict[str, Any], says: str, tmp_path: Path
) -> None:
    if "work" in asked:
        asked = {**asked, "work": str(tmp_path / "work")}
    with pytest.raises(UsageError, match=says):
        judge.ask(**asked)


def test_a_reference_engine_that_is_not_there_is_named(case: JudgeCase, tmp_path: Path) -> None:
    gone = JudgeProcess(replace(case, reference=tmp_path / "nowhere"), tmp_path / "judge.log")
    with pytest.raises(EngineError, match="nowhere: no reference engine"):
        gone.ask("calibrate", champion="x", blocks=3, work=str(tmp_path / "work"))
    gone.close()


def test_a_judge_that_is_killed_gives_no_verdict(
    judge: JudgeProcess, make_engine: MakeEngine, tmp_path: Path
) -> None:
    def kill() -> None:
        time.sleep(1.0)
        os.kill(judge._process.pid, signal.SIGKILL)

    threading.Thread(target=kill).start()
    with pytest.raises(JudgeGone, match="ended with -9"):
        judge.ask(
            "trial", champion=str(make_engine("champion", prompt_seconds=0.1)),
            candidate=str(make_engine("faster")), work=str(tmp_path / "work"),
        )  # fmt: skip
    assert not judge.is_alive


@pytest.mark.parametrize("forged", ["answer", "mac", "nonce"])
def test_an_answer_that_the_judge_did_not_sign_is_not_believed(
    case: JudgeCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    judge = JudgeProcess(case, tmp_path / "judge.log")
    told = {"nonce": "0" * 32, "mac": "0" * 64, "answer": '{"verdict": "kept"}'}
    if forged != "nonce":
        monkeypatch.setattr("secrets.token_hex", lambda _: told["nonce"])
    monkeypatch.setattr(judge, "_lines", iter_lines(json.dumps(told) + "\n"))
    with pytest.raises(InternalError, match="not signed"):
        judge.ask("trial", champion="x", candidate="y", work=str(tmp_path / "work"))
    judge.close()


class iter_lines:
    """A channel on which somebody else speaks."""

    def __init__(self, line: str) -> None:
        self._line = line

    def readline(self) -> str:
        return self._line

    def close(self) -> None:
        pass


def test_a_judge_whose_files_change_while_it_judges_has_judged_nothing(
    case: JudgeCase,
    make_engine: MakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digests = iter(["a" * 64, "b" * 64])
    monkeypatch.setattr(judge_module, "harness_sha256", lambda: next(digests))
    judge = Judge(case)
    found = judge.trial(
        TrialQuestion(
            champion=make_engine("champion", prompt_seconds=0.1), candidate=make_engine("faster"),
            work=tmp_path / "work",
        )
    )  # fmt: skip
    judge.close()
    assert found["headline"].startswith("void: harness_changed")


def test_one_changed_byte_of_the_judge_shows_in_its_digest(tmp_path: Path) -> None:
    copy = tmp_path / "package"
    for room in harness.ROOMS:
        shutil.copytree(
            harness.PACKAGE / room, copy / room, ignore=shutil.ignore_patterns("__pycache__")
        )
    assert harness.harness_sha256(copy) == harness.harness_sha256()
    path = copy / "evaluation/gates.py"
    path.write_text(path.read_text() + "#")
    assert harness.harness_sha256(copy) != harness.harness_sha256()
