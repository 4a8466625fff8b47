"""Outputs of a kernel on their way from the process that ran it to the judge: raw numbers, whose
shapes the judge knows beforehand. Nothing that arrives is executed or unpickled.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import numpy.typing as npt

from enginewright.evaluation.kernel_cases import Case, Floats
from enginewright.evaluation.kernel_check_calls import Caller
from enginewright.evaluation.kernel_check_group import CheckedGroup, Outcome, WrongKernel

_MOST_LINE = 4096


class Silent(Exception):
    """The process with the kernel sent no more."""


@dataclass
class SendingCaller:
    """Makes calls and sends what they gave."""

    caller: Caller
    """Makes them."""
    group: CheckedGroup
    """What the kernel computes."""
    out: IO[bytes]
    """To the judge."""
    token: str
    """Marks every line: what a kernel prints is not taken for one."""

    def call(self, case: Case, *, threads: int, concurrent: bool, fill: int) -> Outcome:
        """As the caller; sent before it is returned."""
        got = self.caller.call(case, threads=threads, concurrent=concurrent, fill=fill)
        line = {"token": self.token, "keys": _digest(got.keys), "values": _digest(got.values)}
        self.out.write(json.dumps(line).encode() + b"\n")
        for name in self.group.outputs:
            self.out.write(_bytes(got.outputs[name]))
        if self.group.writes_cache:
            at = self.group.written(case.step)
            for part in (got.keys, got.values):
                if not part.size:
                    continue
                self.out.write(_bytes(part[at]))
        self.out.flush()
        return got


@dataclass
class ReceivingCaller:
    """Stands in for the kernel on the judge's side."""

    group: CheckedGroup
    """What the kernel computes."""
    source: IO[bytes]
    """From the process with the kernel."""
    token: str
    """What every line must carry."""
    cases: int = field(init=False, default=0)

    def call(self, case: Case, *, threads: int, concurrent: bool, fill: int) -> Outcome:
        """What the next call gave.

        Raises: WrongKernel if it changed cached rows that are not its own, or as the other side
        says; Silent if nothing comes.
        """
        line = self._line()
        group, counts = self.group, case.counts()
        outputs = {
            name: self._floats((counts[group.kinds[name]], group.widths[name]))
            for name in group.outputs
        }
        keys, values = (
            part.astype(group.cache.element).astype(np.float32) for part in (case.keys, case.values)
        )
        if group.writes_cache:
            at = group.written(case.step)
            for part in (keys, values):
                if not part.size:
                    continue
                part[at] = self._floats(part[at].shape)
        for name, part in (("keys", keys), ("values", values)):
            if line.get(name) != _digest(part):
                what = f"changed cached {name} that are not its rows' ({case.label})"
                raise WrongKernel("bounds", what)
        self.cases += 1
        return Outcome(outputs, keys, values)

    def finish(self) -> None:
        """The other side says that it is through. Raises: as `call`."""
        if not self._line().get("done"):
            raise Silent

    def _line(self) -> dict[str, object]:
        text = self.source.readline(_MOST_LINE)
        try:
            line = json.loads(text)
        except ValueError as error:
            raise Silent from error
        if not isinstance(line, dict) or line.get("token") != self.token:
            raise Silent
        wrong = line.get("wrong")
        if isinstance(wrong, dict):
            raise WrongKernel(str(wrong.get("rule")), str(wrong.get("reason")))
        return line

    def _floats(self, shape: tuple[int, ...]) -> Floats:
        size = int(np.prod(shape)) * 4
        content = self.source.read(size)
        if len(content) != size:
            raise Silent
        return np.frombuffer(content, np.float32).reshape(shape).copy()


def _bytes(part: npt.NDArray[np.float32]) -> bytes:
    return np.ascontiguousarray(part, np.float32).tobytes()


def _digest(part: npt.NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(part, np.float32).data).hexdigest()
