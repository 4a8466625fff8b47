"""The kernel library, and a place for the objects of a test run."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from enginewright.evaluation.compile import Job, compile_object, object_key
from enginewright.evaluation.kernel_check import CheckResult, KernelRequest, check_kernel
from enginewright.model import Graph
from enginewright.plan import Group, Library, Plan, load_library
from enginewright.plan.contracts import StepName
from enginewright.settings import load_settings


@dataclass(frozen=True)
class Workshop:
    """Compiles groups, each distinct object once, and checks them."""

    objects: Path

    def compiled(self, library: Library, group: Group) -> Path:
        job = Job(
            source=library.named(group.kernel).source,
            constants=tuple(sorted(group.constants.items())),
        )
        made = self.objects / f"{object_key(job)}.so"
        if not made.exists():
            failure = compile_object(job, made)
            assert failure is None, failure
        return made

    def check(
        self,
        library: Library,
        graph: Graph,
        plan: Plan,
        step: StepName,
        group: Group,
        *,
        seconds: float = 100.0,
    ) -> CheckResult:
        request = KernelRequest(
            object=self.compiled(library, group),
            ops=group.ops,
            layouts=group.layouts,
            step=step,
            rows=plan.steps[step].rows,
            selected=plan.steps[step].selected,
            cache=plan.cache.model_dump(mode="json"),
            numerics=tuple(library.named(group.kernel).contract.numerics),
            seed=secrets.randbits(32),
        )
        return check_kernel(graph, request, seconds=seconds)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("objects"))


@pytest.fixture(scope="session")
def library() -> Library:
    return load_library(load_settings().kernels)
