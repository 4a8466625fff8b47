"""Other servers as arms: started by a command, or found at a URL."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from enginewright.errors import TargetError
from enginewright.evaluation.load_generator import LoadGenerator
from enginewright.evaluation.load_records import Request, Wave
from enginewright.evaluation.passes import run_pass
from enginewright.evaluation.peers import PeerArm
from enginewright.evaluation.running_server import ServerFailed
from enginewright.target import Baseline

FAKE = Path(__file__).resolve().parent.parent / "evaluation/fake_engine.py"
WAVES = (
    Wave(
        scenario="s",
        phase="timed",
        streams=((Request(id=0, texts=("once",), output_tokens=5),),),
    ),
)


def peer(baseline: Baseline) -> PeerArm:
    return PeerArm(baseline=baseline, checkpoint=Path("w"), threads=2, is_encoder=False)


def command(**settings: object) -> tuple[str, ...]:
    given = json.dumps(settings).replace("{", "{{").replace("}", "}}")
    return (sys.executable, str(FAKE), given, "{port}")


@pytest.mark.parametrize("knows_fields", [True, False])
def test_a_command_is_started_measured_and_stopped(tmp_path: Path, knows_fields: bool) -> None:
    arm = peer(Baseline(name="peer", command=command(extensions=knows_fields)))
    with LoadGenerator(tmp_path / "load.log") as load:
        seen = run_pass(
            arm, load, WAVES, together=None, log=tmp_path / "peer.log", timeout_seconds=10.0
        )
    assert seen.answers[0].completion_tokens == 5
    assert seen.answers[0].token_ids is None
    assert seen.start_seconds is not None
    assert seen.memory is not None
    assert seen.contention.other_share is not None


def test_fields_are_sent_only_to_servers_that_take_them(tmp_path: Path) -> None:
    for knows_fields, fields in ((True, {"ignore_eos": True}), (False, {})):
        arm = peer(Baseline(name="peer", command=command(extensions=knows_fields)))
        server = arm.start(tmp_path / "log")
        server.stop()
        assert server.fields == fields


def test_a_url_is_measured_but_not_stopped(tmp_path: Path) -> None:
    owner = peer(Baseline(name="owner", command=command())).start(tmp_path / "owner.log")
    try:
        arm = peer(Baseline(name="peer", url=f"{owner.base_url}/v1/"))
        with LoadGenerator(tmp_path / "load.log") as load:
            seen = run_pass(
                arm, load, WAVES, together=None, log=tmp_path / "log", timeout_seconds=10.0
            )
        assert seen.answers[0].error is None
        assert (seen.memory, seen.start_seconds, seen.stopped) == (None, None, None)
        assert seen.contention.other_share is None
        assert owner.is_alive
    finally:
        owner.stop()


def test_a_url_where_nobody_listens_says_so(tmp_path: Path) -> None:
    arm = peer(Baseline(name="peer", url="http://127.0.0.1:9", start_seconds=0.2))
    with pytest.raises(ServerFailed, match="not ready in time") as raised:
        arm.start(tmp_path / "log")
    assert raised.value.reason == "not_started"


def test_a_command_that_ends_at_once_quotes_its_log(tmp_path: Path) -> None:
    arm = peer(Baseline(name="peer", command=command(behaviour="no_start")))
    with pytest.raises(ServerFailed, match="no such luck"):
        arm.start(tmp_path / "log")


def test_an_unknown_place_holder_is_named(tmp_path: Path) -> None:
    arm = peer(Baseline(name="peer", command=("serve", "{prot}", "{port}")))
    with pytest.raises(TargetError, match="prot"):
        arm.start(tmp_path / "log")
