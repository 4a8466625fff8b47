"""The kernel library, and small graphs to plan."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.plan import Library, load_library
from enginewright.settings import load_settings

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"

KERNEL = """//! A kernel of a test.
//!
//! ```toml
{contract}
//! ```

#[path = "abi.rs"]
mod abi;
"""

CONTRACT = {
    "name": '"tried"',
    "pattern": '"rms_norm? linear{1,3} add?"',
    "matrices": '["f32", "f16", "bf16"]',
    "rows": '["tokens", "selected"]',
    "steps": '["prefill", "decode"]',
}

LibraryMaker = Callable[..., Library]


@pytest.fixture(scope="session")
def library() -> Library:
    return load_library(load_settings().kernels)


@pytest.fixture(scope="session")
def llama() -> Graph:
    """Two layers, matrices in float16, biases."""
    return build_graph(read_checkpoint(str(TINY / "llama_biases_linear_f16")))


@pytest.fixture(scope="session")
def bert() -> Graph:
    return build_graph(read_checkpoint(str(TINY / "bert_cls")))


@pytest.fixture
def with_kernel(tmp_path: Path) -> LibraryMaker:
    """The library with one more kernel, `tried`: a sound contract with some fields replaced (None:
    left out). `text` is the whole file."""

    def make(text: str | None = None, **fields: str | None) -> Library:
        folder = tmp_path / "kernels"
        if not folder.exists():
            shutil.copytree(load_settings().kernels, folder)
        held = {name: value for name, value in (CONTRACT | fields).items() if value is not None}
        lines = "\n".join(f"//! {name} = {value}" for name, value in held.items())
        content = KERNEL.format(contract=lines) if text is None else text
        (folder / "tried.rs").write_text(content, encoding="utf-8")
        return load_library(folder)

    return make
