"""Who answers a coder: its server, or a recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from enginewright.errors import TargetError, UsageError
from enginewright.retention import Archive, Store
from enginewright.settings import secret
from enginewright.swarm.agents.accounts import exchanges
from enginewright.swarm.run_state import RunState
from enginewright.target import Agent
from enginewright.variation.agents.anthropic_provider import AnthropicProvider
from enginewright.variation.agents.exchange import Provider
from enginewright.variation.agents.openai_provider import OpenAIProvider
from enginewright.variation.agents.prompt import PROMPT_VERSION
from enginewright.variation.agents.recording import Recorded, read_exchanges


def read_keys(agents: Iterable[Agent]) -> dict[str, str | None]:
    """The secret of each agent that asks a server, from the environment and nowhere else.

    Raises: TargetError naming the variable that is not set.
    """
    keys: dict[str, str | None] = {}
    for agent in agents:
        if agent.kind != "coder" or agent.provider == "recorded":
            continue
        variable = agent.key_variable
        keys[agent.title] = None if variable is None else secret(variable)
        if variable is not None and not keys[agent.title]:
            raise TargetError(
                f"agent `{agent.title}` needs a key: the environment has no {variable}",
                hint=f"export {variable}=…, name another with `key_env`, or leave the agent out "
                "with --agents",
            )
    return keys


def make_provider(agent: Agent, keys: Mapping[str, str | None]) -> Provider:
    """The server of an agent. Raises: UsageError if its SDK is not installed."""
    key = keys.get(agent.title)
    if agent.provider == "anthropic":
        return AnthropicProvider(agent, key)
    return OpenAIProvider(agent, key)


def find_recording(agent: Agent, archive: Archive, store: Store, *, target: str) -> Recorded:
    """What `recorded` replays: the file or run that the agent names, else the latest run of the
    target in which a server was asked for it.

    Raises: UsageError if there is none, or if it was made with another prompt.
    """
    held = _read(agent, archive, store, target)
    if held.conversations == 0:
        raise UsageError(
            f"{held.source}: holds no answer for agent `{agent.title}`",
            hint="let the agent work once with a server",
        )
    others = sorted(held.prompts - {PROMPT_VERSION})
    if others:
        raise UsageError(
            f"{held.source}: recorded with prompt {others[0]}; this version has {PROMPT_VERSION}",
            hint="record it again: what was answered then was answered to something else",
        )
    return held


def _read(agent: Agent, archive: Archive, store: Store, target: str) -> Recorded:
    named = agent.recording
    if named is not None and Path(named).is_file():
        text = Path(named).read_text(encoding="utf-8")
        return Recorded(read_exchanges(text, source=named, agent=agent.title), source=named)
    runs = [run for run in archive.runs() if named is None or run.id == named]
    if named is not None and not runs:
        raise UsageError(
            f"agent `{agent.title}`: recording {named!r} is neither a file nor a run",
            hint="an exchange on each line makes a recording",
        )
    for run in reversed(runs):
        if named is None and run.target.get("name") != target:
            continue
        state = RunState(archive, store, run.id)
        is_live = any(
            event.kind == "exchange"
            and event.details["agent"] == agent.title
            and event.details["provider"] != "recorded"
            for event in archive.events(run.id)
        )
        if is_live or named is not None:
            return Recorded(exchanges(state, agent.title), source=f"run {run.id}")
    raise UsageError(
        f"agent `{agent.title}`: no run of {target} has a recording of it",
        hint="let it work once with a server, or name a file: --agents coder:recorded=FILE",
    )
