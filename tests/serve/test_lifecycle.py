"""From start to stop: keys, full queues, clients that leave, signals, ports."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time

import openai
import pytest
from serve_process import stream_events

LONG = {
    "model": "smol",
    "prompt": "Once",
    "max_tokens": 500,
    "temperature": 0,
    "ignore_eos": True,
}
COMPLETE = "/v1/completions"
ACTIVE = "enginewright_active_jobs"


def test_a_full_queue_says_when_to_come_back(start) -> None:
    server = start("--model-name", "smol", "--queue", "2")
    streams = [server.open_stream(COMPLETE, {**LONG, "stream": True}) for _ in range(3)]
    server.wait_until_metric(ACTIVE, 3)
    waiting = [server.open_stream(COMPLETE, LONG) for _ in range(2)]
    server.wait_until_metric("enginewright_queue_depth", 2)
    reply = server.post(COMPLETE, {**LONG, "max_tokens": 1})
    assert reply.status == 503, reply.body
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.error["message"]
    for connection in (*streams, *waiting):
        connection.close()
    server.wait_until_metric(ACTIVE, 0)
    server.wait_until_metric("enginewright_queue_depth", 0)
    assert server.post(COMPLETE, {**LONG, "max_tokens": 1}).status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_slot(start, stream) -> None:
    server = start("--model-name", "smol")
    connections = [server.open_stream(COMPLETE, {**LONG, "stream": stream}) for _ in range(3)]
    server.wait_until_metric(ACTIVE, 3)
    for connection in connections:
        connection.close()
    server.wait_until_metric(ACTIVE, 0)
    assert server.post(COMPLETE, {**LONG, "max_tokens": 1}).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_answers_finish(start, number) -> None:
    server = start("--model-name", "smol", "--grace-seconds", "30")
    replies = []
    body = {**LONG, "max_tokens": 300}
    thread = threading.Thread(target=lambda: replies.append(server.post(COMPLETE, body)))
    thread.start()
    server.wait_until_metric(ACTIVE, 1)
    assert server.stop(number) == 0, server.log.decode()
    thread.join()
    assert replies[0].status == 200
    assert replies[0].json["usage"]["completion_tokens"] == 300


def test_the_grace_time_ends(start) -> None:
    server = start("--model-name", "smol", "--grace-seconds", "0")
    connection = server.open_stream(COMPLETE, {**LONG, "stream": True})
    begun = time.monotonic()
    assert server.stop() == 0, server.log.decode()
    assert time.monotonic() - begun < 20
    connection.close()


def test_a_key_is_asked_for_and_kept_out_of_the_log(start) -> None:
    server = start("--model-name", "smol", "--api-key-env", "TEST_KEY", TEST_KEY="s3cret-key")
    assert server.request("GET", "/health").status == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret-key"}):
        reply = server.request("GET", "/v1/models", headers=headers)
        assert reply.status == 401
        assert reply.error["code"] == "invalid_api_key"
    with openai.OpenAI(base_url=server.base_url, api_key="s3cret-key") as client:
        assert [model.id for model in client.models.list().data] == ["smol"]
    assert server.stop() == 0
    assert b"s3cret-key" not in server.log


def _serve(program, folder, *flags: str) -> subprocess.CompletedProcess[bytes]:
    command = [program, "serve", "--engine", folder.engine, "--checkpoint", folder.checkpoint]
    return subprocess.run([*map(str, command), *flags], capture_output=True, timeout=60)


def test_a_key_variable_that_is_missing_stops_the_start(program, decoder) -> None:
    ended = _serve(program, decoder, "--port", "0", "--api-key-env", "NO_SUCH_VARIABLE")
    assert ended.returncode != 0 and ended.stdout == b""
    assert b"NO_SUCH_VARIABLE" in ended.stderr and b"hint:" in ended.stderr


def test_a_port_in_use_is_an_error_with_a_hint(program, decoder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = _serve(program, decoder, "--port", str(port))
    assert ended.returncode != 0 and ended.stdout == b""
    assert str(port).encode() in ended.stderr and b"hint:" in ended.stderr


def test_an_engine_that_is_missing_is_an_error_with_a_hint(program, decoder, tmp_path) -> None:
    missing = type(decoder)(tmp_path / "nothing", decoder.checkpoint)
    ended = _serve(program, missing, "--port", "0")
    assert ended.returncode != 0 and ended.stdout == b""
    assert b"nothing" in ended.stderr and b"hint:" in ended.stderr


def test_events_are_framed_and_end_with_done(chat_server) -> None:
    body = {**LONG, "max_tokens": 4, "stream": True, "return_token_ids": True}
    reply = chat_server.post(COMPLETE, body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = stream_events(reply.body)
    assert events[-1] == "[DONE]"
