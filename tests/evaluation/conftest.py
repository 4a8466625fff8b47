"""A judge with fake engines: tokens are bytes, models are hashes, nobody measures their speed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_fakes import SETTINGS, JobMaker, fake_arm, make_target
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from enginewright.evaluation.engine_process import EngineArm
from enginewright.evaluation.oracle import Oracle
from enginewright.evaluation.trial import TrialJob
from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.target import Machine, Target

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"


def byte_to_unicode() -> list[str]:
    """The characters that byte-level tokenizers write bytes as."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown, extra = {byte: chr(byte) for byte in plain}, 0
    for byte in range(256):
        if byte not in shown:
            shown[byte] = chr(256 + extra)
            extra += 1
    return [shown[byte] for byte in range(256)]


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One token for each byte, with the byte as its id."""
    vocabulary = {letter: byte for byte, letter in enumerate(byte_to_unicode())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def decoder_graph() -> Graph:
    return build_graph(read_checkpoint(TINY / "llama_untied_llama3"))


@pytest.fixture(scope="session")
def encoder_graph() -> Graph:
    return build_graph(read_checkpoint(TINY / "bert_mean"))


@pytest.fixture(scope="session")
def machine() -> Machine:
    """A machine so fast that no fake comes near its floor."""
    return Machine(
        processor="test",
        features=frozenset(),
        cores=2,
        last_level_cache_bytes=0,
        read_bandwidth={1: 1e12},
        read_buffer_bytes=1 << 30,
        peak_flops={1: 1e15},
        kernel="test",
        compiler="",
        probe={},
    )


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    log = tmp_path_factory.mktemp("oracle") / "oracle.log"
    with Oracle(fake_arm("oracle"), log) as running:
        yield running


@pytest.fixture(scope="session")
def decoder_target() -> Target:
    return make_target(
        [
            {"name": "short", "prompt_tokens": 40, "output_tokens": 6, "streams": 2},
            {"name": "long", "prompt_tokens": 90, "output_tokens": 4},
        ]
    )


@pytest.fixture(scope="session")
def encoder_target() -> Target:
    return make_target(
        [
            {"name": "one", "prompt_tokens": 40, "requests": 2},
            {"name": "many", "prompt_tokens": 30, "batch": 4},
        ]
    )


@pytest.fixture
def decoder_job(
    decoder_target: Target,
    decoder_graph: Graph,
    machine: Machine,
    oracle: Oracle,
    tokenizer_file: Path,
    tmp_path: Path,
) -> JobMaker:
    """A trial of an honest champion, which takes its time, against a candidate."""

    def make(candidate: EngineArm, **changes: Any) -> TrialJob:
        job = TrialJob(
            target=decoder_target,
            graph=decoder_graph,
            machine=machine,
            tokenizer=tokenizer_file,
            champion=fake_arm("champion", prompt_seconds=0.1),
            candidate=candidate,
            oracle=oracle,
            work=tmp_path,
            settings=SETTINGS,
        )
        return replace(job, **changes)

    return make


@pytest.fixture
def encoder_job(decoder_job: JobMaker, encoder_target: Target, encoder_graph: Graph) -> JobMaker:
    """The same for an encoder."""

    def make(candidate: EngineArm, **changes: Any) -> TrialJob:
        champion = fake_arm("champion", text_seconds=0.1)
        return decoder_job(
            candidate,
            **{
                "target": encoder_target,
                "graph": encoder_graph,
                "champion": champion,
                **changes,
            },
        )

    return make
