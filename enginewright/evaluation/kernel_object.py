"""A compiled kernel under `ctypes`: the records of kernels/cpu/abi.rs, guarded memory, calls on
threads."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ABI = 2
MAX_BUFFERS = 8
MAX_WEIGHTS = 16
GUARD_BYTES = 4096
GUARD = 0xFF
"""Around every buffer: NaN as float32 and as float16, so that reading outside shows as well."""

_SYMBOLS = ("ew_abi", "ew_phases", "ew_scratch", "ew_packed_bytes", "ew_pack", "ew_run")


class StepRecord(ctypes.Structure):
    """`Step`."""

    _fields_ = (
        ("rows", ctypes.c_uint32),
        ("segments", ctypes.c_uint32),
        ("selected", ctypes.c_uint32),
        ("token_ids", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("selected_rows", ctypes.c_void_p),
    )


class CacheRecord(ctypes.Structure):
    """`Cache`."""

    _fields_ = (
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("slot_bytes", ctypes.c_size_t),
        ("capacity", ctypes.c_uint32),
    )


class StateRecord(ctypes.Structure):
    """`State`."""

    _fields_ = (("start", ctypes.c_void_p), ("slot_bytes", ctypes.c_size_t))


class CallRecord(ctypes.Structure):
    """`Call`."""

    _fields_ = (
        ("step", ctypes.POINTER(StepRecord)),
        ("threads", ctypes.c_uint32),
        ("inputs", ctypes.c_void_p * MAX_BUFFERS),
        ("outputs", ctypes.c_void_p * MAX_BUFFERS),
        ("weights", ctypes.c_void_p * MAX_WEIGHTS),
        ("cache", CacheRecord),
        ("state", StateRecord),
        ("table", ctypes.POINTER(ctypes.c_void_p)),
        ("scratch", ctypes.c_void_p),
        ("ticket", ctypes.c_void_p),
    )


class BrokenContract(Exception):
    """The object does not keep the kernel contract; the message says how."""


class Guarded:
    """64-byte aligned memory with a filled zone on either side."""

    def __init__(self, size: int, fill: int = 0) -> None:
        self.size = size
        self._whole = np.full(size + 2 * GUARD_BYTES + 64, GUARD, np.uint8)
        self._start = GUARD_BYTES + -(self._whole.ctypes.data + GUARD_BYTES) % 64
        self.bytes: Bytes = self._whole[self._start : self._start + size]
        self.bytes[:] = fill

    @classmethod
    def holding(cls, values: npt.NDArray[Any]) -> Guarded:
        """A copy of an array's bytes."""
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        made = cls(raw.nbytes)
        made.bytes[:] = raw
        return made

    @property
    def address(self) -> int:
        """Of the first byte."""
        return int(self.bytes.ctypes.data)

    def floats(self, *shape: int) -> npt.NDArray[np.float32]:
        """The memory as float32."""
        return self.bytes.view(np.float32).reshape(shape)

    def is_intact(self) -> bool:
        """Whether nobody wrote outside."""
        before, after = self._whole[: self._start], self._whole[self._start + self.size :]
        return bool((before == GUARD).all() and (after == GUARD).all())


@dataclass(frozen=True, kw_only=True)
class KernelObject:
    """A loaded kernel."""

    library: ctypes.CDLL
    """Its functions."""
    phases: int
    """Phases of a call."""

    @classmethod
    def load(cls, path: Path) -> KernelObject:
        """Load and check symbols, version and phases.

        Raises: BrokenContract.
        """
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BrokenContract(f"cannot be loaded: {error}") from error
        for name in _SYMBOLS:
            if not hasattr(library, name):
                raise BrokenContract(f"does not export `{name}`")
        unsigned, pointer = ctypes.c_uint32, ctypes.c_void_p
        for name, result, arguments in (
            ("ew_abi", unsigned, []),
            ("ew_phases", unsigned, []),
            ("ew_scratch", ctypes.c_size_t, [unsigned, unsigned]),
            ("ew_packed_bytes", ctypes.c_size_t, [unsigned]),
            ("ew_pack", None, [unsigned, pointer, pointer]),
            ("ew_run", None, [pointer, unsigned, unsigned]),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        if library.ew_abi() != ABI:
            raise BrokenContract(
                f"speaks version {library.ew_abi()} of the kernel contract; expected {ABI}"
            )
        phases = library.ew_phases()
        if not 1 <= phases <= 64:
            raise BrokenContract(f"has {phases} phases; expected 1 to 64")
        return cls(library=library, phases=phases)

    def scratch(self, rows: int, threads: int, *, fill: int) -> Guarded:
        """Scratch of the size that the kernel asks for, every byte `fill`.

        Raises: BrokenContract if it asks for more than 4 GiB.
        """
        size = self.library.ew_scratch(rows, threads)
        if size > 1 << 32:
            raise BrokenContract(f"asks for {size} bytes of scratch for {rows} rows")
        return Guarded(size, fill=fill)

    def pack(self, weight: int, stored: Guarded, layout: str) -> Guarded:
        """A weight as the kernel wants it: as stored, or packed.

        Raises: BrokenContract if kernel and plan disagree, or packing writes outside.
        """
        size = self.library.ew_packed_bytes(weight)
        if (size == 0) != (layout == "stored"):
            raise BrokenContract(
                f"weight {weight}: the plan says `{layout}`, the kernel {size} bytes"
            )
        if size == 0:
            return stored
        packed = Guarded(size)
        self.library.ew_pack(weight, stored.address, packed.address)
        if not packed.is_intact():
            raise BrokenContract(f"packing weight {weight} wrote outside its {size} bytes")
        return packed

    def run(self, call: CallRecord, ticket: npt.NDArray[np.uint32], *, concurrent: bool) -> None:
        """One call: every thread's share of every phase, on threads of their own or one after the
        other, last first."""
        reference = ctypes.byref(call)
        for phase in range(self.phases):
            ticket[:] = 0
            if concurrent and call.threads > 1:
                workers = [
                    threading.Thread(target=self.library.ew_run, args=(reference, phase, thread))
                    for thread in range(call.threads)
                ]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            else:
                for thread in reversed(range(call.threads)):
                    self.library.ew_run(reference, phase, thread)
