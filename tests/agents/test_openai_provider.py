"""One attempt against a scripted server: what is an answer, what is a failure, what it cost."""

import asyncio
import time
from email.utils import formatdate

import pytest
from scripted_server import (
    breaks_off,
    call,
    ends_early,
    fails,
    falls_silent,
    refuses,
    says,
    uses,
)

from enginewright.target import Agent
from enginewright.variation.agents.exchange import Failure, Message, Reply, Request
from enginewright.variation.agents.openai_provider import OpenAIProvider
from enginewright.variation.agents.tools import CODER_TOOLS

REQUEST = Request(
    conversation=0, turn=0, messages=(Message(role="user", text="Hello."),), tools=CODER_TOOLS,
    answer_tokens=500,
)  # fmt: skip


def agent(server, **more):
    held = {"kind": "coder", "model": "m", "base_url": server.url, **more}
    return Agent.model_validate(held)


def ask(server, *, key="a-key", idle_seconds=5.0, request=REQUEST, **more):
    async def one():
        provider = OpenAIProvider(agent(server, **more), key, idle_seconds=idle_seconds)
        try:
            return await provider.ask(request)
        finally:
            await provider.close()

    return asyncio.run(one())


def test_a_streamed_answer_with_tools_is_put_together(server):
    server.plays(says("Let me look.", call("read_plan", {}), call("list_files", {}, at=1)))
    reply = ask(server, temperature=0.5, seed=7)
    assert isinstance(reply, Reply) and reply.text == "Let me look."
    assert [(held.name, held.arguments) for held in reply.calls] == [
        ("read_plan", "{}"), ("list_files", "{}"),
    ]  # fmt: skip
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)
    (sent,) = server.requests
    assert (sent["model"], sent["temperature"], sent["seed"], sent["max_tokens"]) == (
        "m", 0.5, 7, 500,
    )  # fmt: skip
    assert server.headers[0]["authorization"] == "Bearer a-key"
    assert {tool["function"]["name"] for tool in sent["tools"]} == {t.name for t in CODER_TOOLS}


def test_a_server_that_tells_no_usage_is_counted_by_bytes(server):
    server.plays(says("twelve bytes", usage=None))
    reply = ask(server)
    assert reply.usage.is_estimated and reply.usage.output_tokens == 12
    assert reply.usage.input_tokens > 1000


def test_a_rate_limit_says_how_long_to_wait(server):
    server.plays(fails(429, retry_after="3"))
    failure = ask(server)
    assert (failure.kind, failure.wait_seconds, failure.usage) == ("rate_limited", 3.0, None)
    server.plays(fails(503, retry_after=formatdate(time.time() + 60, usegmt=True)))
    failure = ask(server)
    assert failure.kind == "unavailable" and 50 < failure.wait_seconds <= 61


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "refused"),
        (400, "refused"),
        (404, "refused"),
        (500, "unavailable"),
        (529, "unavailable"),
    ],
)
def test_other_refusals_say_whether_they_may_pass(server, status, kind):
    server.plays(fails(status, "no such model"))
    failure = ask(server)
    assert failure.kind == kind and "no such model" in failure.detail
    assert failure.may_pass == (kind == "unavailable")


@pytest.mark.parametrize("step", [breaks_off("Half an ans"), ends_early("Half an ans")])
def test_half_an_answer_is_none_and_is_paid_for(server, step):
    server.plays(step)
    failure = ask(server)
    assert isinstance(failure, Failure) and failure.kind == "broken_stream"
    assert failure.usage.is_estimated and failure.usage.output_tokens == 11


def test_a_stream_that_falls_silent_is_given_up(server):
    server.plays(falls_silent("Half", 3.0))
    start = time.monotonic()
    failure = ask(server, idle_seconds=0.3)
    assert failure.kind == "timed_out" and time.monotonic() - start < 2.5
    assert failure.usage is not None


def test_an_answer_that_takes_too_long_is_given_up(server):
    server.plays(falls_silent("Half", 3.0))
    start = time.monotonic()
    failure = ask(server, limits={"request_seconds": 0.3})
    assert failure.kind == "timed_out" and time.monotonic() - start < 2.5


def test_a_server_that_is_not_there_is_unavailable_and_costs_nothing(server):
    failure = ask(server, base_url="http://127.0.0.1:9/v1")
    assert (failure.kind, failure.usage) == ("unavailable", None)


def test_a_refusal_is_an_answer_of_its_own_kind(server):
    server.plays(refuses("I will not."))
    reply = ask(server)
    assert (reply.finish, reply.text, reply.calls) == ("refusal", "I will not.", ())


def test_what_was_said_goes_out_as_the_protocol_has_it(server):
    from enginewright.variation.agents.exchange import ToolCall

    used = ToolCall(id="c1", name="build", arguments="{}")
    messages = (
        Message(role="system", text="S"),
        Message(role="assistant", text="", calls=(used,)),
        Message(role="tool", text="It builds.", call="c1"),
    )
    server.plays(uses(("check", {})))
    ask(server, request=Request(
        conversation=0, turn=1, messages=messages, tools=CODER_TOOLS, answer_tokens=300,
    ))  # fmt: skip
    sent = server.requests[0]["messages"]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "build", "arguments": "{}"}
    assert sent[2] == {"role": "tool", "content": "It builds.", "tool_call_id": "c1"}
