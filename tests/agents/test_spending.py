"""Limits are hard: what could cost more than what is left is not sent."""

import asyncio
import random

import pytest

from enginewright.target import AgentLimits, Prices
from enginewright.variation.agents.exchange import Failure, Message, Reply, Request, Usage
from enginewright.variation.agents.patience import Pace, Patience, ask_patiently
from enginewright.variation.agents.spending import Purse

PRICES = Prices(input=1.0, cached_input=0.1, output=10.0)


def purse(*, tokens=10_000, money=None, answer_tokens=1000, prices=None):
    limits = AgentLimits(tokens=tokens, money=money, answer_tokens=answer_tokens)
    return Purse(limits=limits, prices=prices)


def usage(read, written, cached=0):
    return Usage(input_tokens=read, cached_tokens=cached, output_tokens=written, is_estimated=False)


def test_the_answer_gets_what_room_is_left_and_then_nothing_is_sent():
    held = purse()
    first = held.reserve(4000)
    assert first.answer_tokens == 1000
    held.settle(first, usage(4000, 1000))
    second = held.reserve(4500)
    assert second.answer_tokens == 500
    assert held.reserve(100) is None, "what is set aside is not there for others"
    held.settle(second, None)
    assert held.spent.tokens == 5000 and held.reserve(4000).answer_tokens == 1000


def test_a_limit_of_zero_sends_nothing():
    assert purse(tokens=0).reserve(0) is None
    assert purse(money=0.0, prices=PRICES).reserve(0) is None
    free = Prices(input=0.0, output=0.0)
    assert purse(money=0.0, prices=free).reserve(0) is None


def test_money_bounds_the_answer_and_cached_tokens_are_cheaper():
    held = purse(money=0.01, prices=PRICES)
    first = held.reserve(2000)
    assert first.answer_tokens == 800, "0.01 less 0.002 buys 800 tokens at 10 a million"
    cost = held.settle(first, usage(2000, 100, cached=1000))
    assert cost.money == pytest.approx((1000 * 1.0 + 1000 * 0.1 + 100 * 10.0) / 1e6)
    assert held.reserve(9000) is None
    assert "0.0021 of 0.0100 USD" in held.why_empty()


def request():
    return Request(
        conversation=0, turn=0, messages=(Message(role="user", text="?"),), tools=(),
        answer_tokens=300,
    )  # fmt: skip


class Script:
    def __init__(self, *outcomes):
        self.outcomes, self.asked = list(outcomes), 0

    async def ask(self, request):
        self.asked += 1
        return self.outcomes.pop(0)

    async def close(self):
        pass


def patiently(script, *, attempts=4, may_send=lambda: True, per_minute=None):
    slept = []
    now = [0.0]

    async def sleep(seconds):
        slept.append(round(seconds, 3))
        now[0] += seconds

    pace = Pace(requests_per_minute=per_minute, clock=lambda: now[0], sleep=sleep)
    told = []
    outcome = asyncio.run(
        ask_patiently(
            script, request(), patience=Patience(attempts=attempts, first_seconds=1.0), pace=pace,
            chance=random.Random(1), may_send=may_send,
            attempted=lambda asked, found: told.append(found),
        )
    )  # fmt: skip
    return outcome, slept, told


GOOD = Reply(text="yes", calls=(), finish="stop", usage=usage(1, 1))


def failed(kind, **more):
    return Failure(kind=kind, detail=kind, **more)


def test_what_may_pass_is_asked_again_after_growing_waits():
    script = Script(failed("unavailable"), failed("broken_stream"), failed("timed_out"), GOOD)
    outcome, slept, told = patiently(script)
    assert outcome is GOOD and len(told) == 4
    assert 0.5 <= slept[0] <= 1 and 1 <= slept[1] <= 2 and 2 <= slept[2] <= 4


def test_a_server_that_says_how_long_to_wait_is_obeyed_to_the_second():
    outcome, slept, _ = patiently(Script(failed("rate_limited", wait_seconds=3.0), GOOD))
    assert outcome is GOOD and slept == [3.0]
    outcome, slept, _ = patiently(Script(failed("rate_limited", wait_seconds=3600.0), GOOD))
    assert outcome.kind == "rate_limited" and slept == []


def test_what_will_not_pass_is_asked_once_and_patience_ends():
    script = Script(failed("refused"), GOOD)
    assert patiently(script)[0].kind == "refused" and script.asked == 1
    script = Script(*[failed("unavailable")] * 9)
    assert patiently(script)[0].kind == "unavailable" and script.asked == 4


def test_every_attempt_is_asked_for_before_it_is_sent():
    script = Script(*[failed("unavailable")] * 9)
    allowed = iter([True, True, False])
    outcome, _, told = patiently(script, may_send=lambda: next(allowed))
    assert outcome.kind == "unavailable" and len(told) == 2 == script.asked
    script = Script(GOOD)
    assert patiently(script, may_send=lambda: False)[0].kind == "unaffordable"
    assert script.asked == 0


def test_no_more_requests_a_minute_than_asked_for():
    outcome, slept, _ = patiently(
        Script(failed("rate_limited", wait_seconds=0.0), failed("rate_limited", wait_seconds=0.0),
               GOOD), per_minute=6,
    )  # fmt: skip
    assert outcome is GOOD and slept == [10.0, 10.0]
