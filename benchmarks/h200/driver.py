"""Cubins beside PyTorch: loaded and launched through the CUDA driver on PyTorch's own stream.

Needs PyTorch with CUDA; nothing of this project.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_cuda = ctypes.CDLL("libcuda.so.1")
_MAX_DYNAMIC_SHARED = 8
_PROGRAMMATIC_SERIALIZATION = 6


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_byte * 64)]


class _Config(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


def check(result: int) -> None:
    """Raises: RuntimeError with the driver's number."""
    if result != 0:
        raise RuntimeError(f"the CUDA driver answers {result}")


class Function:
    """A kernel of a cubin."""

    def __init__(self, handle: ctypes.c_void_p, shared_bytes: int, *, early: bool = False) -> None:
        """`early`: a launch may begin before the one in front of it has ended (programmatic
        dependent launch); the kernel waits where it must."""
        self._handle = handle
        self._early = early
        self._shared_bytes = shared_bytes
        if shared_bytes > 48 << 10:
            check(_cuda.cuFuncSetAttribute(handle, _MAX_DYNAMIC_SHARED, shared_bytes))

    def __call__(self, blocks: tuple[int, int], threads: int, *arguments: Any) -> None:
        """Launch on the current stream. Tensors are passed as addresses, ctypes values as they
        are."""
        held = [
            ctypes.c_void_p(argument.data_ptr()) if isinstance(argument, torch.Tensor) else argument
            for argument in arguments
        ]
        pointers = (ctypes.c_void_p * len(held))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in held)
        )
        attribute = _Attribute(id=_PROGRAMMATIC_SERIALIZATION)
        attribute.value[0] = int(self._early)
        config = _Config(
            blocks[0], blocks[1], 1, threads, 1, 1, self._shared_bytes,
            torch.cuda.current_stream().cuda_stream,
            ctypes.cast(ctypes.pointer(attribute), ctypes.c_void_p), 1,
        )  # fmt: skip
        check(_cuda.cuLaunchKernelEx(ctypes.byref(config), self._handle, pointers, None))


def compile_and_load(
    source: Path,
    name: str,
    out: Path,
    *,
    shared_bytes: int = 0,
    defines: dict[str, Any] | None = None,
    early: bool = False,
) -> Function:
    """Compile a .cu for the Hopper chip with the nvcc on PATH and take one kernel of it.

    Raises: RuntimeError with what the compiler or the driver says.
    """
    cubin = out / f"{source.stem}.cubin"
    command = [
        "nvcc", "-cubin", "-std=c++20", "-O3", "--expt-relaxed-constexpr",
        "-gencode=arch=compute_90a,code=sm_90a",
        *(f"-D{key}={value}" for key, value in (defines or {}).items()),
        "-o", str(cubin), str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr + done.stdout)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    module, handle = ctypes.c_void_p(), ctypes.c_void_p()
    check(_cuda.cuModuleLoad(ctypes.byref(module), str(cubin).encode()))
    check(_cuda.cuModuleGetFunction(ctypes.byref(handle), module, name.encode()))
    return Function(handle, shared_bytes, early=early)


def graph_times(launches: Callable[[], None], count: int, *, replays: int = 60) -> list[float]:
    """Microseconds of one of the `count` launches that `launches` makes, captured as one CUDA
    graph: a sample for each replay, by events around it, after ten that do not count."""
    launches()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launches()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for replay in range(10 + replays):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if replay >= 10:
            samples.append(begin.elapsed_time(end) * 1000 / count)
    return samples


def copy_bandwidth(mebibytes: int = 4096) -> float:
    """Bytes a second of a device-to-device copy, counting what is read and what is written."""
    source = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = graph_times(lambda: target.copy_(source), 1, replays=20)
    return 2 * source.numel() / (statistics.median(times) * 1e-6)


def read_bandwidth(mebibytes: int = 8192) -> float:
    """Bytes a second that a sum over a large array reads."""
    source = torch.zeros(mebibytes << 18, dtype=torch.float32, device="cuda")
    times = graph_times(lambda: source.sum(), 1, replays=20)
    return 4 * source.numel() / (statistics.median(times) * 1e-6)
