"""What each agent did and spent in a run, for `build --json` and the table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from enginewright.swarm.agents.accounts import spent
from enginewright.swarm.agents.team import author_of
from enginewright.swarm.run_state import SEARCH, RunState
from enginewright.target import Agent


def agents_result(state: RunState) -> list[dict[str, Any]]:
    """An object for each agent that took part: what it is, what became of its candidates, what it
    spent of which limits."""
    events = state.archive.events(state.run)
    told = state.last_event("agents")
    agents = [Agent.model_validate(held) for held in told["agents"]] if told is not None else []
    verdicts: dict[str, Counter[str]] = {}
    for trial in state.trials(SEARCH):
        author = author_of(state.candidate(trial.candidate).tactic)
        verdicts.setdefault(author, Counter())[trial.verdict or "none"] += 1
    found = []
    for agent in agents:
        author = f"coder:{agent.title}" if agent.kind == "coder" else agent.kind
        counts = verdicts.get(author, Counter())
        held: dict[str, Any] = {
            "name": agent.title,
            "kind": agent.kind,
            "kept": counts["kept"],
            "rejected": counts["rejected"],
            "void": counts["void"],
        }
        if agent.kind != "tuner":
            held["submissions"] = sum(
                event.kind == "submitted" and author_of(event.details["agent"]) == author
                for event in events
            )
        if agent.kind == "coder":
            held |= _spending(agent, state)
            held["conversations"] = dict(
                Counter(
                    event.details["ended"]
                    for event in events
                    if event.kind == "conversation" and event.details["agent"] == agent.title
                )
            )
        found.append(held)
    return found


def _spending(agent: Agent, state: RunState) -> dict[str, Any]:
    gone = spent(state.archive.events(state.run), agent.title)
    money = None
    if agent.prices is not None:
        money = {
            "spent": gone.money,
            "limit": agent.limits.money,
            "currency": agent.prices.currency,
        }
    return {
        "model": agent.model,
        "provider": agent.provider,
        "tokens": {
            "input": gone.input_tokens,
            "cached": gone.cached_tokens,
            "output": gone.output_tokens,
            "limit": agent.limits.tokens,
        },
        "money": money,
    }
