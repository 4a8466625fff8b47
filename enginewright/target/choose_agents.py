"""Which agents take part in a build: those of the target, or those that `--agents` names."""

from __future__ import annotations

import difflib

from enginewright.errors import UsageError
from enginewright.target.agents import Agent
from enginewright.target.records import Target

_TUNER = Agent(kind="tuner")


def choose_agents(target: Target, asked: str | None = None) -> tuple[Agent, ...]:
    """The agents in the order in which they are asked.

    `asked` is a list with commas: kinds (all of the kind) or names of the target's agents, `tuner`,
    `guest`; with `:recorded` a coder replays its recording, with `:recorded=FILE` that one. Without
    it, the tuner and all of the target.

    Raises: UsageError naming the word that means nothing.
    """
    if asked is None:
        others = tuple(agent for agent in target.agent if agent.kind != "tuner")
        return (_TUNER, *others)
    chosen: dict[str, Agent] = {}
    for word in asked.split(","):
        for agent in _named(target, word.strip()):
            chosen.setdefault(agent.title, agent)
    return tuple(chosen.values())


def _named(target: Target, word: str) -> tuple[Agent, ...]:
    name, _, how = word.partition(":")
    found = tuple(agent for agent in target.agent if name in (agent.title, agent.kind))
    is_recorded = how == "recorded" or how.startswith("recorded=")
    if how and not (is_recorded and (name == "coder" or any(a.kind == "coder" for a in found))):
        raise UsageError(
            f"--agents: {word!r}: {how!r} is unknown",
            hint="coders may be `:recorded` or `:recorded=FILE`; others take nothing",
        )
    if not found:
        found = (_missing(target, name, is_recorded=is_recorded),)
    if not is_recorded:
        return found
    given = how.partition("=")[2] or None
    return tuple(
        agent.model_copy(update={"provider": "recorded", "recording": given or agent.recording})
        for agent in found
    )


def _missing(target: Target, name: str, *, is_recorded: bool) -> Agent:
    """An agent that the target need not describe."""
    if name in ("tuner", "guest") or (name == "coder" and is_recorded):
        return Agent.model_validate({"kind": name})
    if name == "coder":
        raise UsageError(
            f"--agents: the target {target.name} has no coder",
            hint='add three lines to it: [[agent]], kind = "coder", model = "…"',
        )
    known = ["tuner", "coder", "guest", *(agent.title for agent in target.agent)]
    nearest = difflib.get_close_matches(name, known, n=1)
    raise UsageError(
        f"--agents: there is no agent {name!r}",
        hint=f"did you mean `{nearest[0]}`?" if nearest else f"known: {', '.join(known)}",
    )
