"""A scripted server of language models, and the replay of the loop's tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "swarm"))

from scripted_server import ScriptedServer


@pytest.fixture
def server():
    """Answers as its `script` says; see `scripted_server`."""
    with ScriptedServer() as made:
        yield made
