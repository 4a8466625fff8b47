"""Tactics that turn one parameter of one kind of group, as the kernels' contracts offer it."""

from __future__ import annotations

from functools import partial

from enginewright.plan.choices import change_alike, groups_by_signature
from enginewright.plan.plan import Group
from enginewright.variation.idea import Context, Idea, Tactic

THEMES: dict[str, tuple[str, ...]] = {
    "tile": ("TILE", "VECTORS", "KEYS", "PARTS"),
    "unroll": ("UNROLL", "DEPTH"),
    "prefetch": ("PREFETCH", "PREFETCH_LEVEL"),
    "cache_block": ("ROW_BLOCK", "INPUT_BLOCK", "BLOCK"),
    "partition": ("SHARE_ABOVE", "TICKET_UNITS", "APART"),
}
"""Parameters by tactic; what no theme names belongs to `other_parameter`."""
WHY = {
    "tile": "another tile fits registers and remainders better",
    "unroll": "another unrolling keeps more sums in flight",
    "prefetch": "weights asked for otherwise arrive in time",
    "cache_block": "another block keeps what is used again in a nearer cache",
    "partition": "another way to share out the work leaves threads waiting less",
    "other_parameter": "another value suits this shape better",
}
"""Hypotheses by tactic."""


def _theme_of(parameter: str) -> str:
    for theme, names in THEMES.items():
        if parameter in names:
            return theme
    return "other_parameter"


def _turn(theme: str) -> Tactic:
    def propose(context: Context) -> list[Idea]:
        ideas = []
        for step in context.plan.steps:
            alike = groups_by_signature(context.plan, context.graph, step)
            # Kinds of groups that stand in most places come first: they take most of the time.
            for signature, groups in sorted(alike.items(), key=lambda item: -len(item[1])):
                kernel = context.library.named(groups[0].kernel)
                current = kernel.defaults() | groups[0].parameters
                for name, parameter in kernel.contract.parameters.items():
                    if _theme_of(name) != theme:
                        continue
                    for value in parameter.values:
                        if value == current[name]:
                            continue

                        def change(group: Group, name: str = name, value: int = value) -> Group:
                            parameters = group.parameters | {name: value}
                            return group.model_copy(update={"parameters": parameters})

                        make = partial(
                            change_alike,
                            context.plan,
                            context.graph,
                            context.library,
                            step=step,
                            signature=signature,
                            change=change,
                        )
                        ideas.append(
                            Idea(
                                make=make,
                                tactic=theme,
                                hypothesis=(
                                    f"{WHY[theme]}: {name} {current[name]} to {value} in "
                                    f"{groups[0].kernel} ({step}, {len(groups)} places)"
                                ),
                                predicted_effect=1.01,
                            )
                        )
        return ideas

    return Tactic(name=theme, propose=propose)


TACTICS = tuple(_turn(theme) for theme in (*THEMES, "other_parameter"))
