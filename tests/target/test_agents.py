"""Agents of a target: what three lines give, what is refused, and who takes part."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_target_files import GOOD

from enginewright.errors import TargetError, UsageError
from enginewright.target import LoadedTarget, choose_agents, load_target

CODER = '[[agent]]\nkind = "coder"\nmodel = "m"\n'
GUEST = '[[agent]]\nkind = "guest"\n'


def load(tmp_path: Path, agents: str) -> LoadedTarget:
    path = tmp_path / "target.toml"
    path.write_text(GOOD + agents)
    return load_target(path)


def titles(loaded: LoadedTarget, asked: str | None = None) -> list[str]:
    return [agent.title for agent in choose_agents(loaded.target, asked)]


def test_without_agents_the_tuner_is_alone(tmp_path: Path) -> None:
    loaded = load(tmp_path, "")
    assert loaded.target.agent == () and titles(loaded) == ["tuner"]


def test_three_lines_add_a_coder_with_hard_limits_and_the_usual_key(tmp_path: Path) -> None:
    loaded = load(tmp_path, CODER)
    assert titles(loaded) == ["tuner", "coder"]
    coder = loaded.target.agent[0]
    assert coder.limits.tokens == 2_000_000 and coder.key_variable == "OPENAI_API_KEY"


def test_a_server_of_ones_own_needs_no_key_unless_one_is_named(tmp_path: Path) -> None:
    url = 'base_url = "http://127.0.0.1:1/v1"\n'
    assert load(tmp_path, CODER + url).target.agent[0].key_variable is None
    named = load(tmp_path, CODER + url + 'key_env = "MINE"\n')
    assert named.target.agent[0].key_variable == "MINE"


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (CODER + 'modle = "x"\n', ["`agent.0.modle`", "did you mean `model`?", ":24"]),
        (CODER + "[agent.limits]\ntoken = 1\n", ["agent.0.limits.token", "`tokens`"]),
        ('[[agent]]\nkind = "codr"\n', ["agent.0.kind", "'codr'", "coder"]),
        ('[[agent]]\nkind = "coder"\n', ["agent.0.model", "is missing"]),
        (CODER + CODER, ["'coder' twice", "`name`"]),
        (CODER + "[agent.limits]\nmoney = 1.0\n", ["limits.money", "[agent.prices]"]),
        (CODER + "[agent.limits]\ntokens = -1\n", ["agent.0.limits.tokens", "-1"]),
        (CODER + 'key_env = "sk-a.secret"\n', ["agent.0.key_env"]),
        (CODER + 'base_url = "localhost:80"\n', ["agent.0.base_url", "localhost:80"]),
        (GUEST + 'model = "m"\n', ["agent.0.model", "means nothing for a guest"]),
        ('[[agent]]\nkind = "tuner"\nwait_minutes = 1\n', ["wait_minutes", "tuner"]),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, agents: str, words: list[str]) -> None:
    with pytest.raises(TargetError) as raised:
        load(tmp_path, agents)
    assert raised.value.hint and "target.toml" in raised.value.message
    for word in words:
        assert word in str(raised.value)


def test_the_command_line_says_who_takes_part(tmp_path: Path) -> None:
    loaded = load(tmp_path, CODER + GUEST)
    assert titles(loaded, "coder") == ["coder"]
    assert titles(loaded, "guest, tuner") == ["guest", "tuner"]
    (coder,) = choose_agents(loaded.target, "coder:recorded")
    assert (coder.provider, coder.recording) == ("recorded", None)
    (coder,) = choose_agents(loaded.target, "coder:recorded=x.jsonl")
    assert coder.recording == "x.jsonl"


def test_a_recording_needs_no_agent_in_the_target(tmp_path: Path) -> None:
    loaded = load(tmp_path, "")
    assert titles(loaded, "tuner,coder:recorded") == ["tuner", "coder"]
    for asked, words in (("coder", "three lines"), ("codr", "`coder`"), ("tuner:x", "'x'")):
        with pytest.raises(UsageError) as raised:
            choose_agents(loaded.target, asked)
        assert words in str(raised.value)


def test_a_recording_beside_the_target_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_text("")
    loaded = load(tmp_path, CODER + 'recording = "talk.jsonl"\n')
    assert loaded.target.agent[0].recording == str(tmp_path / "talk.jsonl")
