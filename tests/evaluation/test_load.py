"""The load generator, processes and the oracle, against the fake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judge_fakes import fake_arm

from enginewright.errors import EngineError, InternalError
from enginewright.evaluation.engine_process import EngineArm, serve_command
from enginewright.evaluation.load_generator import LoadGenerator
from enginewright.evaluation.load_records import LoadJob, Request, Wave
from enginewright.evaluation.oracle import Oracle
from enginewright.evaluation.running_server import RunningServer, ServerFailed
from enginewright.evaluation.wire import call, first_model


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadGenerator]:
    with LoadGenerator(tmp_path_factory.mktemp("load") / "load.log") as running:
        yield running


def job_for(server: RunningServer, *streams: tuple[Request, ...]) -> LoadJob:
    return LoadJob(
        base_url=server.base_url,
        model="fake",
        api_key=None,
        fields=server.fields,
        timeout_seconds=1.5,
        waves=(Wave(scenario="s", phase="timed", streams=streams),),
    )


def request(number: int, text: str = "once upon", output_tokens: int = 4) -> Request:
    return Request(id=number, texts=(text,), output_tokens=output_tokens)


def test_every_request_comes_back_with_its_times_and_ids(
    load: LoadGenerator, tmp_path: Path
) -> None:
    with fake_arm("engine").start(tmp_path / "log") as server:
        streams = ((request(0), request(1, "another")), (request(2, "third"),))
        result = load.run(job_for(server, *streams))
    assert [answer.id for answer in result.answers] == [0, 1, 2]
    assert [answer.stream for answer in result.answers] == [0, 0, 1]
    for answer in result.answers:
        assert answer.error is None
        assert answer.counted_by == "ids"
        assert answer.token_ids is not None
        assert bytes(answer.token_ids).decode() == answer.text
        assert answer.chunk_tokens == (1, 1, 1, 1)
        assert answer.sent < answer.chunk_times[0] <= answer.chunk_times[-1] <= answer.ended
        assert answer.finish_reason == "length"
    assert result.answers[0].ended <= result.answers[1].sent
    assert result.answers[0].prompt_tokens == len("once upon")


def test_a_server_without_ids_and_usage_is_counted_by_chunks(
    load: LoadGenerator, tmp_path: Path
) -> None:
    with fake_arm("engine", extensions=False).start(tmp_path / "log") as server:
        server.fields = {}
        answer = load.run(job_for(server, (request(0),))).answers[0]
    assert (answer.counted_by, answer.completion_tokens, answer.token_ids) == ("chunks", 4, None)


@pytest.mark.parametrize("extensions", [False, True])
def test_embeddings_are_read_from_base64_and_from_lists(
    load: LoadGenerator, tmp_path: Path, extensions: bool
) -> None:
    with fake_arm("engine", extensions=extensions).start(tmp_path / "log") as server:
        texts = Request(id=0, texts=("one", "two"), output_tokens=0)
        answer = load.run(job_for(server, (texts,))).answers[0]
    assert answer.embeddings is not None
    held = np.asarray(answer.embeddings)
    assert held.shape == (2, 32)
    assert np.linalg.norm(held, axis=1) == pytest.approx(1.0, abs=1e-6)


def test_a_request_that_never_ends_is_accounted_for(load: LoadGenerator, tmp_path: Path) -> None:
    with fake_arm("engine", "hangs").start(tmp_path / "log") as server:
        answer = load.run(job_for(server, (request(0),))).answers[0]
    assert answer.error_kind == "timed_out"
    assert len(answer.chunk_times) == 2


def test_a_server_that_is_gone_is_accounted_for(load: LoadGenerator, tmp_path: Path) -> None:
    server = fake_arm("engine").start(tmp_path / "log")
    job = job_for(server, (request(0),))
    server.stop()
    assert load.run(job).answers[0].error_kind == "connection"


def test_a_load_generator_that_dies_is_our_bug(tmp_path: Path) -> None:
    with LoadGenerator(tmp_path / "load.log") as broken:
        os.kill(broken._process.pid, 9)
        job = LoadJob(
            base_url="http://127.0.0.1:9",
            model="m",
            api_key=None,
            fields={},
            timeout_seconds=1.0,
            waves=(),
        )
        with pytest.raises(InternalError, match="load generator failed"):
            broken.run(job)


def test_a_process_is_measured_from_outside_and_ends_as_a_group(tmp_path: Path) -> None:
    server = fake_arm("engine", mebibytes=64).start(tmp_path / "log")
    memory = server.memory()
    assert memory is not None
    assert memory.peak_bytes > 64 << 20
    assert memory.anonymous_bytes + memory.file_bytes <= memory.peak_bytes
    assert server.cpu_seconds() > 0.0
    assert server.start_seconds is not None
    stopped = server.stop()
    assert not stopped.had_to_be_killed
    assert server.stop() is stopped
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)
    with pytest.raises(ServerFailed, match="has ended"):
        server.memory()


def test_a_process_that_ignores_the_request_to_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginewright.evaluation.running_server._STOP_SECONDS", 0.3)
    server = fake_arm("engine", "stubborn").start(tmp_path / "log")
    stopped = server.stop()
    assert stopped.had_to_be_killed
    assert stopped.exit_code == -9


def test_an_engine_sees_none_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "value")
    script = "import os, sys; print(sorted(os.environ), file=sys.stderr); sys.exit(1)"
    arm = EngineArm(name="curious", fingerprint="x", command=(sys.executable, "-c", script))
    with pytest.raises(ServerFailed, match="ended before it was ready") as raised:
        arm.start(tmp_path / "log")
    assert "PATH" in raised.value.message
    assert "SECRET_KEY" not in raised.value.message


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = serve_command(tmp_path / "none", tmp_path, None, threads=2)
    arm = EngineArm(name="engine", fingerprint="x", command=command)
    with pytest.raises(ServerFailed, match="none cannot be run") as raised:
        arm.start(tmp_path / "log")
    assert raised.value.reason == "not_started"


def test_the_oracle_finds_no_regret_in_its_own_tokens_and_much_in_others(oracle: Oracle) -> None:
    from fake_engine import next_id

    prompt = list(b"a prompt")
    own = [next_id(prompt)]
    own.append(next_id([*prompt, *own]))
    assert oracle.regrets(prompt, own) == (0.0, 0.0)
    assert oracle.regrets(prompt, [own[0], ord("#")]) == pytest.approx((0.0, 4.9))


def test_the_oracle_computes_nothing_twice(tmp_path: Path) -> None:
    with Oracle(fake_arm("oracle"), tmp_path / "log") as running:
        first = running.regrets([1, 2], [3])
        held = running.embeddings(["a", "b"])
        running.close()
        assert running.regrets([1, 2], [3]) == first
        assert (running.embeddings(["b", "a"]) == held[::-1]).all()
        with pytest.raises(EngineError, match="has ended"):
            running.regrets([1, 2], [4])


def test_an_oracle_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no such luck"):
        Oracle(fake_arm("oracle", "no_start"), tmp_path / "log")


def test_plain_calls_name_what_the_server_said(tmp_path: Path) -> None:
    with fake_arm("engine").start(tmp_path / "log") as server:
        assert first_model(server.base_url, timeout_seconds=5.0) == "fake"
        with pytest.raises(EngineError, match="HTTP 404"):
            call(server.base_url, "/v1/nothing", timeout_seconds=5.0)
    with pytest.raises(EngineError, match="cannot be reached"):
        call(server.base_url, "/v1/models", timeout_seconds=5.0)


def test_an_arm_can_be_started_again(tmp_path: Path) -> None:
    arm = replace(fake_arm("engine"), timeout_seconds=20.0)
    with arm.start(tmp_path / "first") as one, arm.start(tmp_path / "second") as two:
        assert one.base_url != two.base_url


def test_an_oracle_that_answers_nonsense_is_an_error_not_a_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Oracle(fake_arm("oracle"), tmp_path / "log") as running:
        for own in ([None, -1.0, float("nan")], [None, -1.0, None], [None, -1.0]):
            top = [None, {"a": -0.5}, {"a": -0.5}]
            logprobs = {"token_logprobs": own, "top_logprobs": top}
            monkeypatch.setattr(
                "enginewright.evaluation.oracle.call",
                lambda *_, held=logprobs, **__: {"choices": [{"logprobs": held}]},
            )
            with pytest.raises(EngineError, match="log-probabilities"):
                running.regrets([1], [2, 3])
