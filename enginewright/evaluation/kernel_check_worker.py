"""The process that runs a kernel under check: a request on stdin, outputs of every call on what was
its stdout. It knows inputs and never what is expected of them; the judge is another process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np

from enginewright.evaluation.kernel_check_call import GuardedCaller
from enginewright.evaluation.kernel_check_calls import Check
from enginewright.evaluation.kernel_check_group import CheckedGroup, WrongKernel
from enginewright.evaluation.kernel_check_wire import SendingCaller
from enginewright.evaluation.kernel_object import BrokenContract, KernelObject


def run(request: dict[str, Any], out: IO[bytes]) -> None:
    """Make every call of the check and send what it gave; last a line that says how it ended."""
    token = request["token"]
    told: dict[str, Any] = {"token": token, "done": True}
    try:
        rng = np.random.default_rng(request["seed"])
        kernel = KernelObject.load(Path(request["object"]))
        group = CheckedGroup(request, rng)
        caller = SendingCaller(GuardedCaller(kernel, group), group, out, token)
        Check(caller=caller, group=group, rng=rng, is_judge=False).run()
    except WrongKernel as error:
        told = {"token": token, "wrong": {"rule": error.rule, "reason": error.reason}}
    except BrokenContract as error:
        told = {"token": token, "wrong": {"rule": "abi", "reason": str(error)}}
    out.write(json.dumps(told).encode() + b"\n")
    out.flush()


def main() -> int:
    """Run what stdin describes. What a kernel prints goes to stderr."""
    request = json.load(sys.stdin)
    private = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(private, "wb") as out:
        try:
            run(request, out)
        except BrokenPipeError:
            # The judge has seen enough.
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
