"""Every CUDA kernel compiles for every chip that is meant; nothing of it runs here."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_graphs import Form, decoder

from enginewright.errors import MachineError
from enginewright.evaluation.compile import Job
from enginewright.evaluation.compile_cuda import compile_cubin, find_nvcc
from enginewright.model import build_graph, read_checkpoint
from enginewright.plan import Allowed, Capacity, load_library, naive_plan
from enginewright.settings import load_settings
from enginewright.variation import big_step

TINY = Path(__file__).resolve().parent.parent / "goldens/tiny"
TINY_MODELS = ("qwen2_biases", "qwen3_head_norms", "bert_mean", "bert_cls")
CHIPS = ("sm_80", "sm_89", "sm_90a", "sm_100", "sm_120")
LIBRARY = load_library(load_settings().cuda_kernels)


@pytest.fixture(scope="session", autouse=True)
def _compiler() -> None:
    try:
        find_nvcc()
    except MachineError as error:
        pytest.skip(f"CUDA kernels are NOT compiled here: {error.message}; {error.hint}")


def jobs() -> dict[str, Job]:
    """One job for each kernel of the library, with the constants of a tiny model."""
    found: dict[str, Job] = {}
    nothing = Allowed(features=frozenset(), numerics=frozenset())
    tiny = [build_graph(read_checkpoint(str(TINY / name))) for name in TINY_MODELS]
    for graph in (*tiny, decoder(Form(dtype="bf16"))):
        plain = naive_plan(graph, LIBRARY, 1, capacity=Capacity(context=64, slots=2))
        for plan in (plain, big_step(plain, graph, LIBRARY, allowed=nothing)):
            for step in plan.steps.values():
                for group in step.groups:
                    source = LIBRARY.named(group.kernel).source
                    constants = tuple(sorted(group.constants.items()))
                    found.setdefault(group.kernel, Job(source=source, constants=constants))
    return found


JOBS = jobs()


def test_every_kernel_of_the_library_is_compiled() -> None:
    assert set(JOBS) == set(LIBRARY)


@pytest.mark.parametrize("kernel", sorted(LIBRARY))
@pytest.mark.parametrize("chip", ["sm_90a", "sm_120"])
def test_a_kernel_compiles_for_a_chip(kernel: str, chip: str, tmp_path: Path) -> None:
    made = tmp_path / "kernel.cubin"
    assert compile_cubin(JOBS[kernel], made, architecture=chip) is None
    assert made.read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize("chip", CHIPS)
def test_the_plainest_kernel_compiles_for_all_chips(chip: str, tmp_path: Path) -> None:
    assert compile_cubin(JOBS["naive_linear"], tmp_path / "k.cubin", architecture=chip) is None


def test_a_kernel_that_is_no_program_is_named_with_its_error(tmp_path: Path) -> None:
    source = tmp_path / "broken.cu"
    source.write_text("this is no kernel\n")
    failure = compile_cubin(Job(source=source, constants=()), tmp_path / "k.cubin")
    assert failure is not None
    assert failure.kernel == "broken"
    assert "error" in failure.reason
    assert not (tmp_path / "k.cubin").exists()


def test_gpu_tests_are_not_run_here() -> None:
    """tests/cuda/compare_on_device.py is; say so wherever this suite is counted."""
    pytest.skip("32 engines of tests/cuda/compare_on_device.py need an NVIDIA GPU: NOT run here")
