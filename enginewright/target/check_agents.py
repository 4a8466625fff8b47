"""Agents that mean nothing, or could spend without a bound, are refused."""

from __future__ import annotations

from enginewright.errors import TargetError
from enginewright.target.agents import Agent
from enginewright.target.lines import KeyPath, Places
from enginewright.target.records import Target

_OF_CODERS = (
    *("model", "base_url", "key_env", "temperature", "seed", "recording", "provider"),
    *("limits", "prices"),
)


def check_agents(target: Target, places: Places) -> None:
    """Check every agent of a target.

    Raises: TargetError naming file, line, field and value.
    """
    titles = [agent.title for agent in target.agent]
    for number, agent in enumerate(target.agent):
        path: KeyPath = ("agent", number)
        if agent.title in titles[:number]:
            raise _refusal(
                places, path, "name", f"is {agent.title!r} twice", "give each agent a `name`"
            )
        if agent.kind == "coder":
            _check_coder(agent, path, places)
        else:
            _check_without_model(agent, path, places)


def _check_coder(agent: Agent, path: KeyPath, places: Places) -> None:
    if agent.model is None and agent.provider != "recorded":
        raise _refusal(
            places, path, "model", "is missing: a coder asks a language model",
            "name the model that the server knows",
        )  # fmt: skip
    if agent.limits.money is not None and agent.prices is None:
        raise _refusal(
            places, path, "limits.money",
            f"is {agent.limits.money:g}, but nothing says what tokens cost",
            "add [agent.prices] with `input` and `output`, each for a million tokens",
        )  # fmt: skip
    if "wait_minutes" in agent.model_fields_set:
        raise _refusal(places, path, "wait_minutes", "is for guests", "leave it out")


def _check_without_model(agent: Agent, path: KeyPath, places: Places) -> None:
    said = [name for name in _OF_CODERS if name in agent.model_fields_set]
    if agent.kind == "tuner" and "wait_minutes" in agent.model_fields_set:
        said.append("wait_minutes")
    if said:
        raise _refusal(
            places, path, said[0], f"means nothing for a {agent.kind}",
            'leave it out, or write kind = "coder"',
        )  # fmt: skip


def _refusal(places: Places, path: KeyPath, field: str, what: str, hint: str) -> TargetError:
    place = places.at((*path, *field.split(".")))
    return TargetError(f"{place}: `agent.{path[-1]}.{field}` {what}", hint=hint)
