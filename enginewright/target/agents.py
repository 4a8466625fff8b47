"""`[[agent]]`: who proposes candidates, and what each may spend."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from enginewright.target.record import Record

AgentKind = Literal["tuner", "coder", "guest"]
Provider = Literal["openai", "anthropic", "recorded"]

KEY_VARIABLES: dict[str, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""Where each provider's own key is looked for."""


class AgentLimits(Record):
    """`[agent.limits]`: hard limits of one agent, checked before each request is sent."""

    tokens: int = Field(default=2_000_000, ge=0)
    """Tokens read and written over the whole run; 0 asks nothing."""
    money: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Most money over the whole run, in the currency of `prices`."""
    concurrent: int = Field(default=1, ge=1, le=64)
    """Conversations at once, each in a workspace of its own."""
    turns: int = Field(default=40, ge=1, le=1000)
    """Most requests of one conversation."""
    answer_tokens: int = Field(default=8192, ge=256, le=1_000_000)
    """Most tokens of one answer."""
    requests_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """Most requests sent in a minute; left out, only the server's own limits count."""
    request_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """How long one answer may take, from sending to its last byte."""


class Prices(Record):
    """`[agent.prices]`: what a million tokens costs; frozen when a run begins."""

    input: float = Field(ge=0, allow_inf_nan=False)
    """A million tokens read."""
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """A million tokens that the server had in its cache; left out, they cost as much as others."""
    output: float = Field(ge=0, allow_inf_nan=False)
    """A million tokens written."""
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    """Of these prices and of `money`."""


class Agent(Record):
    """`[[agent]]`: one proposer. The tuner is always there."""

    kind: AgentKind
    """`tuner`: search without a language model. `coder`: a language model with tools. `guest`: an
    outside coding agent."""
    name: str = Field(default="", pattern="^([a-z0-9][a-z0-9-]*)?$")
    """What results call it; the kind, if left out."""
    model: str | None = Field(default=None, min_length=1)
    """Coders: the model that the server knows."""
    provider: Provider = "openai"
    """Coders: whose protocol the server speaks; `recorded` replays a recording, without network."""
    base_url: str | None = Field(default=None, pattern="^https?://.+")
    """Coders: the server, if it is not the provider's own; `http://127.0.0.1:PORT/v1` for a
    local one."""
    key_env: str | None = Field(default=None, pattern="^[A-Za-z_][A-Za-z0-9_]*$")
    """Coders: the environment variable that holds the key. Left out, the provider's usual one; none
    for a `base_url`."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Coders: how freely the model chooses; left out, the server's default."""
    seed: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Coders: asked of servers that sample by a seed."""
    recording: str | None = Field(default=None, min_length=1)
    """Coders: what is replayed: a file, or the id of a run. A relative file starts at the target
    file's folder."""
    wait_minutes: float = Field(default=10.0, ge=0, le=100_000)
    """Guests: how long the search waits for a submission when nobody else has a proposal."""
    limits: AgentLimits = AgentLimits()
    """Hard limits."""
    prices: Prices | None = None
    """What tokens cost; needed for `money`."""

    @property
    def title(self) -> str:
        """Its name, or its kind."""
        return self.name or self.kind

    @property
    def key_variable(self) -> str | None:
        """The environment variable of its key; None if it needs none."""
        if self.key_env is not None:
            return self.key_env
        return None if self.base_url is not None else KEY_VARIABLES.get(self.provider)
