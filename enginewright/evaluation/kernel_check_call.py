"""One call of a kernel between guards: what it may not touch is compared afterwards."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from enginewright.evaluation.kernel_cases import Case
from enginewright.evaluation.kernel_check_group import CheckedGroup, Outcome, WrongKernel
from enginewright.evaluation.kernel_object import (
    MAX_WEIGHTS,
    CacheRecord,
    CallRecord,
    Guarded,
    KernelObject,
    StateRecord,
    StepRecord,
)

STEP_ARRAYS = ("token_ids", "positions", "slots", "starts", "selected_rows")


@dataclass
class GuardedCaller:
    """Calls one kernel, over and over, with fresh memory."""

    kernel: KernelObject
    """The compiled kernel."""
    group: CheckedGroup
    """What it computes."""
    packed: list[tuple[str, Guarded]] = field(init=False)

    def __post_init__(self) -> None:
        self.packed = [
            (name, self.kernel.pack(number, Guarded.holding(raw), layout))
            for number, ((name, raw), layout) in enumerate(
                zip(self.group.stored, self.group.request["layouts"], strict=True)
            )
        ]
        self._packed_before = [held.bytes.copy() for _, held in self.packed]

    def call(self, case: Case, *, threads: int, concurrent: bool, fill: int) -> Outcome:
        """Run the kernel once over copies of the case; `fill` is every byte of scratch and outputs.

        Raises: WrongKernel if it wrote where it may not.
        """
        group, step = self.group, case.step
        counts = case.counts()
        inputs = {name: Guarded.holding(case.inputs[name]) for name in group.inputs}
        outputs = {
            name: Guarded(counts[group.kinds[name]] * group.widths[name] * 4, fill=fill)
            for name in group.outputs
        }
        arrays = {
            name: Guarded.holding(getattr(step, name).astype(np.uint32)) for name in STEP_ARRAYS
        }
        keys, values = (
            Guarded.holding(group.cache.stored(part)) for part in (case.keys, case.values)
        )
        scratch = self.kernel.scratch(counts["tokens"], threads, fill=fill)
        read_only = {
            name: (held, held.bytes.copy()) for name, held in (inputs | arrays).items()
        } | {
            f"weight {name}": (held, before)
            for (name, held), before in zip(self.packed, self._packed_before, strict=True)
        }
        ticket = np.zeros(16, np.uint32)
        record = StepRecord(
            rows=counts["tokens"],
            segments=counts["segments"],
            selected=counts["selected"],
            **{name: held.address for name, held in arrays.items()},
        )
        call = CallRecord(
            step=ctypes.pointer(record),
            threads=threads,
            scratch=scratch.address,
            ticket=ticket.ctypes.data,
        )
        for number, name in enumerate(group.inputs):
            call.inputs[number] = inputs[name].address
        for number, name in enumerate(group.outputs):
            call.outputs[number] = outputs[name].address
        table = (ctypes.c_void_p * max(1, len(self.packed)))()
        for number, (_, held) in enumerate(self.packed):
            table[number] = held.address
            if number < MAX_WEIGHTS:
                call.weights[number] = held.address
        call.table = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
        if group.is_cached:
            call.cache = CacheRecord(
                keys=keys.address,
                values=values.address,
                slot_bytes=keys.size // len(case.keys),
                capacity=case.keys.shape[1],
            )
        if group.recurrent is not None:
            call.state = StateRecord(start=keys.address, slot_bytes=keys.size // len(case.keys))
        self.kernel.run(call, ticket, concurrent=concurrent)
        written = {"scratch": scratch, "keys": keys, "values": values} | outputs
        for name, held in written.items():
            if not held.is_intact():
                raise WrongKernel(
                    "bounds", f"wrote outside `{name}` ({case.label}, {threads} threads)"
                )
        for name, (held, before) in read_only.items():
            if not held.is_intact() or not np.array_equal(held.bytes, before):
                raise WrongKernel("inputs_changed", f"changed its input `{name}` ({case.label})")
        return Outcome(
            outputs={
                name: held.floats(counts[group.kinds[name]], group.widths[name])
                for name, held in outputs.items()
            },
            keys=group.cache.read(keys, case.keys.shape),
            values=group.cache.read(values, case.values.shape),
        )
