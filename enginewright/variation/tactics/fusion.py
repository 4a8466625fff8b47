"""Tactics that change what a group is: neighbouring ops in one kernel, or apart again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from enginewright.plan import Choice
from enginewright.plan.choices import groups_by_signature
from enginewright.plan.contracts import StepName
from enginewright.variation.idea import Context, Idea, Tactic


def best_choice(context: Context, step: StepName, ops: Sequence[str]) -> Choice | None:
    """The kernel for exactly these ops that memory, then the processor, speaks for."""

    def worth(choice: Choice) -> tuple[float, bool, int, int, str]:
        contract = context.library.named(choice.kernel).contract
        is_fast = not choice.kernel.startswith("naive_")
        remembered = context.rank.get(choice.kernel, 0.0)
        return remembered, is_fast, len(contract.numerics), len(contract.requires), choice.kernel

    return max(context.choices(step, ops), key=worth, default=None)


def windows(context: Context, step: StepName, kinds: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Runs of ops of these kinds that are several whole groups: a run that cuts a group would
    leave its rest to naive kernels."""
    ops = context.graph.ops
    group_of = {
        op_id: group.ops for group in context.plan.steps[step].groups for op_id in group.ops
    }
    found = []
    for first in range(len(ops) - len(kinds) + 1):
        run = ops[first : first + len(kinds)]
        ids = tuple(op.id for op in run)
        if tuple(op.kind for op in run) != kinds:
            continue
        touched = {group_of[op_id] for op_id in ids}
        if len(touched) > 1 and all(set(ids).issuperset(group) for group in touched):
            found.append(ids)
    return found


def _fuse(name: str, kinds: str, why: str, predicted: float) -> Tactic:
    wanted = tuple(kinds.split())

    def propose(context: Context) -> list[Idea]:
        ideas = []
        for step in context.plan.steps:
            choices = []
            for ids in windows(context, step, wanted):
                choice = best_choice(context, step, ids)
                if choice is not None and not choice.kernel.startswith("naive_"):
                    choices.append(choice)
            if not choices:
                continue
            ideas.append(
                Idea(
                    make=partial(context.regrouped, step, choices),
                    tactic=name,
                    hypothesis=f"{why} ({step}, {len(choices)} places)",
                    predicted_effect=predicted,
                )
            )
        return ideas

    return Tactic(name=name, propose=propose)


def _split(context: Context) -> list[Idea]:
    """Each kind of fused group apart, each op with its best kernel of its own."""
    ideas = []
    for step in context.plan.steps:
        for alike in groups_by_signature(context.plan, context.graph, step).values():
            if len(alike[0].ops) < 2:
                continue
            choices = []
            for group in alike:
                for op_id in group.ops:
                    choice = best_choice(context, step, [op_id])
                    if choice is not None:
                        choices.append(choice)
            kinds = " ".join(context.graph.op(op_id).kind for op_id in alike[0].ops)
            ideas.append(
                Idea(
                    make=partial(context.regrouped, step, choices),
                    tactic="split_group",
                    hypothesis=f"`{kinds}` apart lets each op share out its own work ({step})",
                    predicted_effect=0.98,
                )
            )
    return ideas


TACTICS = (
    _fuse(
        "fuse_qkv_cache",
        "rms_norm linear linear linear rope rope kv_write",
        "norm, three projections, rotation and cache write in one pass save six barriers a layer",
        1.05,
    ),
    _fuse(
        "fuse_norm_projections",
        "rms_norm linear linear linear",
        "the norm is worked out where its rows are multiplied",
        1.03,
    ),
    _fuse("fuse_projections", "linear linear linear", "three products read their rows once", 1.03),
    _fuse(
        "fuse_gate_up",
        "rms_norm linear linear silu_mul",
        "gate and up meet in registers: their products never reach memory",
        1.05,
    ),
    _fuse("fuse_residual", "linear add", "the residual is added where the product is stored", 1.02),
    _fuse(
        "fuse_residual_norm",
        "linear add layer_norm",
        "residual and norm while the rows are in cache",
        1.03,
    ),
    _fuse("fuse_gelu", "linear gelu", "the activation is applied to the sums in registers", 1.05),
    _fuse("fuse_head", "select_rows rms_norm linear", "only the wanted rows reach the head", 1.02),
    _fuse("fuse_rotation_cache", "rope kv_write", "keys turn on their way into the cache", 1.01),
    _fuse("fuse_embed_norm", "embed layer_norm", "rows are normalised while they are read", 1.01),
    _fuse("fuse_pool_norm", "mean_pool l2_norm", "the mean is normalised where it is made", 1.01),
    Tactic(name="split_group", propose=_split),
)
