"""Compile one kernel with the constants of a group and call it from Python, without the host.

Used by the other `float_*.py` files here: they check against NumPy and time one thread's share of
the work, which is what a change to a kernel needs. What an engine gains is measured by the
factory, not here.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "cpu"
BUILT = Path(tempfile.gettempdir()) / f"enginewright-float-kernels-{os.getuid()}"


class _Step(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("rows", "segments", "selected")] + [
        (name, ctypes.c_void_p)
        for name in ("token_ids", "positions", "slots", "starts", "selected_rows")
    ]


class _Cache(ctypes.Structure):
    _fields_ = [
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("slot_bytes", ctypes.c_size_t),
        ("capacity", ctypes.c_uint32),
    ]


class _Call(ctypes.Structure):
    _fields_ = [
        ("step", ctypes.POINTER(_Step)),
        ("threads", ctypes.c_uint32),
        ("inputs", ctypes.c_void_p * 8),
        ("outputs", ctypes.c_void_p * 8),
        ("weights", ctypes.c_void_p * 16),
        ("cache", _Cache),
        ("scratch", ctypes.c_void_p),
        ("ticket", ctypes.c_void_p),
    ]


def aligned(shape: Sequence[int], dtype: str = "float32") -> NDArray[np.generic]:
    """Zeros at a 64-byte boundary, on huge pages where the system gives them."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def float_bits(value: float) -> str:
    """Decimal form of the float32 bits, as constants are given."""
    return str(struct.unpack("<I", struct.pack("<f", value))[0])


def build(name: str, constants: Mapping[str, object]) -> ctypes.CDLL:
    """Compile `kernels/cpu/NAME.rs`; kept by constants and sources."""
    BUILT.mkdir(exist_ok=True)
    digest = hashlib.sha256(
        repr((name, sorted((k, str(v)) for k, v in constants.items()))).encode()
    )
    for source in sorted(KERNELS.glob("*.rs")):
        digest.update(source.read_bytes())
    built = BUILT / f"{name}-{digest.hexdigest()[:16]}.so"
    if not built.exists():
        command = ["rustc", "--edition", "2024", "--crate-type", "cdylib", "-C", "opt-level=3"]
        command += ["-C", "target-cpu=native", "-C", "panic=abort", "-D", "warnings"]
        command += [str(KERNELS / f"{name}.rs"), "-o", str(built)]
        environment = os.environ | {key: str(value) for key, value in constants.items()}
        subprocess.run(command, check=True, env=environment)
    return ctypes.CDLL(str(built))


@dataclass(kw_only=True)
class Group:
    """A compiled group with its buffers; `run` fills `outputs`."""

    library: ctypes.CDLL
    """The object."""
    inputs: list[NDArray[np.generic]]
    """External inputs."""
    outputs: list[NDArray[np.generic]]
    """External outputs."""
    weights: list[NDArray[np.generic]]
    """As stored."""
    positions: NDArray[np.uint32]
    """Of each row."""
    slots: NDArray[np.uint32]
    """Of each row."""
    starts: NDArray[np.uint32]
    """First row of each segment, then the number of rows."""
    token_ids: NDArray[np.uint32] | None = None
    """Of each row."""
    selected_rows: NDArray[np.uint32] | None = None
    """Rows that are wanted."""
    keys: NDArray[np.generic] | None = None
    """Cache, slots first."""
    values: NDArray[np.generic] | None = None
    """Cache, slots first."""
    capacity: int = 0
    """Positions of a slot."""
    kept: list[object] = field(default_factory=list)
    """Everything that the call points at."""

    def prepare(self, threads: int) -> _Call:
        """Pack the weights and fill the call."""
        library = self.library
        library.ew_scratch.restype = ctypes.c_size_t
        library.ew_packed_bytes.restype = ctypes.c_size_t
        library.ew_run.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
        if library.ew_abi() != 1:
            raise RuntimeError("the kernel has another contract than this harness")
        step, call = _Step(), _Call()
        step.rows, step.segments = len(self.positions), len(self.starts) - 1
        for name in ("token_ids", "positions", "slots", "starts", "selected_rows"):
            array = getattr(self, name)
            if array is not None:
                setattr(step, name, array.ctypes.data)
        step.selected = 0 if self.selected_rows is None else len(self.selected_rows)
        call.step, call.threads = ctypes.pointer(step), threads
        for i, array in enumerate(self.inputs):
            call.inputs[i] = array.ctypes.data
        for i, array in enumerate(self.outputs):
            call.outputs[i] = array.ctypes.data
        for i, array in enumerate(self.weights):
            size = library.ew_packed_bytes(i)
            packed = array
            if size:
                packed = aligned([size], "uint8")
                library.ew_pack(
                    i, ctypes.c_void_p(array.ctypes.data), ctypes.c_void_p(packed.ctypes.data)
                )
            self.kept.append(packed)
            call.weights[i] = packed.ctypes.data
        if self.keys is not None and self.values is not None:
            call.cache.keys, call.cache.values = self.keys.ctypes.data, self.values.ctypes.data
            call.cache.slot_bytes = self.keys.strides[0]
            call.cache.capacity = self.capacity
        scratch = aligned([max(64, library.ew_scratch(step.rows, threads))], "uint8")
        ticket = aligned([64], "uint8")
        call.scratch, call.ticket = scratch.ctypes.data, ticket.ctypes.data
        self.kept += [step, scratch, ticket]
        return call

    def run(self, call: _Call) -> list[float]:
        """Run every thread's share, one after the other; seconds of each thread."""
        ticket = ctypes.cast(call.ticket, ctypes.POINTER(ctypes.c_uint32))
        seconds = [0.0] * call.threads
        for phase in range(self.library.ew_phases()):
            ticket[0] = 0
            for thread in range(call.threads):
                start = time.perf_counter()
                self.library.ew_run(ctypes.byref(call), phase, thread)
                seconds[thread] += time.perf_counter() - start
        return seconds

    def time(self, call: _Call, repeats: int) -> float:
        """Least seconds of the busiest thread, over repeats."""
        self.run(call)
        return min(max(self.run(call)) for _ in range(repeats))
