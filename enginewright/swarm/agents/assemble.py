"""The proposers of a run, out of the agents that take part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginewright.retention import Archive, Store
from enginewright.settings import Settings
from enginewright.swarm.agents.accounts import Account
from enginewright.swarm.agents.coding import Coding, MakeProvider
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.hosting import Hosting
from enginewright.swarm.agents.providers import find_recording, make_provider, read_keys
from enginewright.swarm.agents.team import GUESTS, TUNER, Team
from enginewright.swarm.proposer import Proposer
from enginewright.swarm.run import Run
from enginewright.target import Agent
from enginewright.variation.agents.patience import Patience
from enginewright.variation.agents.recording import Recorded

NO_GUIDE = "Copy a kernel of the library that serves the same ops, and keep to kernels/abi.rs.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What agents need of the world, found before anything is built."""

    keys: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    """The secret of each agent that asks a server."""
    recordings: Mapping[str, Recorded] = field(default_factory=dict)
    """What each recorded agent replays."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be seen."""
        return tuple(key for key in self.keys.values() if key)


def prepare_agents(agents: tuple[Agent, ...], settings: Settings, *, target: str) -> Prepared:
    """Keys and recordings of the agents.

    Raises: TargetError if a key is not set; UsageError if a recording is absent or does not fit.
    """
    keys = read_keys(agents)
    recorded = [agent for agent in agents if agent.provider == "recorded"]
    recordings = {}
    if recorded:
        archive = Archive(settings.home / "archive.sqlite")
        store = Store(settings.home / "store")
        recordings = {
            agent.title: find_recording(agent, archive, store, target=target) for agent in recorded
        }
    return Prepared(keys=keys, recordings=recordings)


def read_guide(kernels: Path) -> str:
    """How kernels are written, as the library says it."""
    guide = kernels / "README.md"
    return guide.read_text(encoding="utf-8") if guide.is_file() else NO_GUIDE


def assemble(
    run: Run,
    agents: tuple[Agent, ...],
    tuner: Proposer,
    grounds: Grounds,
    prepared: Prepared,
    *,
    patience: Patience | None = None,
) -> Proposer:
    """One proposer of all agents; the tuner itself, if it is alone. Who takes part, under which
    limits and at which prices, is told to the archive."""
    run.journal.tell("agents", agents=[agent.model_dump(mode="json") for agent in agents])
    if [agent.kind for agent in agents] == ["tuner"]:
        return tuner
    members: dict[str, Proposer] = {}
    host: Hosting | None = None
    for agent in agents:
        if agent.kind == "tuner":
            members[TUNER] = tuner
        elif agent.kind == "coder":
            account = Account(
                agent=agent, state=run.state, journal=run.journal, redactor=grounds.redactor
            )
            coder = Coding(run, grounds, account, _provider_of(agent, prepared), patience=patience)
            members[coder.title] = coder
        else:
            seconds = 60.0 * agent.wait_minutes
            host = Hosting(run, grounds, wait_seconds=seconds)
            members[GUESTS] = host
    return Team(run.state, members, host=host)


def _provider_of(agent: Agent, prepared: Prepared) -> MakeProvider:
    held = prepared.recordings.get(agent.title)
    if held is not None:
        return lambda: held
    return lambda: make_provider(agent, prepared.keys)
