"""The report's figures: SVG text to stand inside a page, in the page's own type."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from enginewright.delivery.report.drawing import (
    COLOURS,
    INK,
    RULE,
    SOFT,
    STYLE,
    as_svg,
    legend_above,
    one_axes,
    plain_log_ticks,
)
from enginewright.delivery.report.judge_test import WHOLE_SEARCH
from enginewright.delivery.report.lineage import Step, search_steps, tree
from enginewright.delivery.report.material import GroupTime, ReportMaterial
from enginewright.delivery.report.wording import duration, ratio

_MOST_LABELS = 12
_MOST_GROUPS = 14


def speedup_figure(material: ReportMaterial) -> str | None:
    """Every timed trial on the scale of speed over the first engine, with its interval."""
    steps = search_steps(material)
    timed = [step for step in steps if step.speedup is not None]
    if not timed:
        return None
    title = "Speed-up over trials"
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "speedup"}):
        split = _split(steps)
        figure, panels = _speed_panels(split)
        for axes in panels:
            mine = [
                step
                for step in timed
                if split is None
                or (step.speedup is not None and step.speedup.value >= split) == (axes is panels[0])
            ]
            _draw_steps(axes, steps, mine)
            axes.set_xlim(-0.5, len(steps) + 0.8)
        _limit_panels(panels, split)
        for axes in panels:
            plain_log_ticks(axes.yaxis, *axes.get_ylim(), most=4 if axes is not panels[0] else 7)
        foot = panels[-1]
        _rail(foot, [step.order for step in steps if step.speedup is None])
        foot.xaxis.set_major_locator(MaxNLocator(integer=True))
        foot.set_xlabel("trial, in the order finished")
        panels[0].set_ylabel("speed over the naive engine")
        handles = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        legend_above(panels[0], handles)
        kept = [step for step in timed if step.trial.verdict == "kept"]
        for step in kept[-_MOST_LABELS:]:
            # To the left of the dot nothing is drawn, but the first ones have no room there.
            is_first = step.order < 0.12 * len(steps)
            panels[0].annotate(
                step.tactic,
                (step.order, step.after),
                (6, -13) if is_first else (-5, 7),
                textcoords="offset points",
                ha="left" if is_first else "right",
                fontsize=9,
                color=COLOURS["kept"],
                annotation_clip=True,
            )
        return as_svg(
            figure,
            "speedup",
            title,
            f"{len(steps)} trials; the champion ends at {ratio(steps[-1].after)} the speed of the "
            "naive engine, as the search measured it.",
        )


def _split(steps: list[Step]) -> float | None:
    """Where to cut the scale so that one great leap does not flatten what came after it."""
    leap = max(steps, key=lambda step: step.after / step.before)
    if leap.after / leap.before < 1.8 or leap is steps[-1]:
        return None
    later = [
        step.speedup.low or step.speedup.value
        for step in steps[leap.order - 1 :]
        if step.speedup is not None and step.speedup.value > 0.9 * leap.after
    ]
    return min(later) * 0.96


def _speed_panels(split: float | None) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(8.6, 4.3), layout=ConstrainedLayoutEngine(h_pad=0.02, hspace=0.0))
    if split is None:
        panels = [figure.add_subplot()]
    else:
        grid = figure.add_gridspec(2, 1, height_ratios=[2.4, 1])
        upper = figure.add_subplot(grid[0])
        panels = [upper, figure.add_subplot(grid[1], sharex=upper)]
        upper.tick_params(axis="x", length=0, labelbottom=False)
        upper.spines["bottom"].set_linestyle((0, (4, 4)))
        panels[1].spines["top"].set_visible(False)
    for axes in panels:
        axes.set_yscale("log")
        axes.grid(axis="y", color=RULE, linewidth=0.6)
    return figure, panels


def _limit_panels(panels: list[Any], split: float | None) -> None:
    low, high = panels[-1].get_ylim()
    foot = low / (high / low) ** 0.06
    if split is None:
        panels[0].set_ylim(foot, high)
        return
    panels[0].set_ylim(split, panels[0].dataLim.y1 * 1.04)
    panels[1].set_ylim(min(foot, 0.8), split)


def _draw_steps(axes: Any, steps: list[Step], points: list[Step]) -> None:
    places = [0, *(step.order for step in steps)]
    heights = [1.0, *(step.after for step in steps)]
    axes.step(places, heights, where="post", color=COLOURS["kept"], linewidth=1.6, alpha=0.55)
    for kind in ("kept", "rejected"):
        mine = [step for step in points if step.trial.verdict == kind]
        if not mine:
            continue
        count = sum(step.trial.verdict == kind and step.speedup is not None for step in steps)
        for step in mine:
            held = step.speedup
            if held is not None and held.low is not None and held.high is not None:
                axes.vlines(step.order, held.low, held.high, color=COLOURS[kind], lw=1.2)
        axes.plot(
            [step.order for step in mine],
            [step.speedup.value for step in mine if step.speedup],
            "o",
            color=COLOURS[kind],
            markerfacecolor=COLOURS[kind] if kind == "kept" else "white",
            markersize=6 if kind == "kept" else 4.5,
            label=f"{kind} ({count})",
        )


def lineage_figure(material: ReportMaterial) -> str | None:
    """Candidates by the order proposed and by the number of ancestors."""
    nodes = tree(material)
    if len(nodes) < 2:
        return None
    by_id = {node.entry.candidate: node for node in nodes}
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "lineage"}):
        deepest = max(node.depth for node in nodes)
        figure, axes = one_axes(8.6, min(5.2, 1.7 + 0.34 * deepest))
        for node in nodes:
            parent = by_id.get(node.entry.parent or "")
            if parent is None:
                continue
            both = node.is_ancestor and parent.is_ancestor
            axes.plot(
                [parent.order, parent.order, node.order],
                [parent.depth, node.depth, node.depth],
                color=COLOURS["kept"] if both else RULE,
                linewidth=2.0 if both else 0.8,
                zorder=2 if both else 1,
            )
        for kind, marker, size in (
            (None, "|", 5),
            ("rejected", "o", 4.5),
            ("void", "x", 5.5),
            ("kept", "o", 6.5),
        ):
            mine = [node for node in nodes if node.verdict == kind]
            if not mine:
                continue
            axes.plot(
                [node.order for node in mine],
                [node.depth for node in mine],
                marker,
                color=COLOURS.get(kind or "", SOFT),
                markerfacecolor=COLOURS["kept"] if kind == "kept" else "white",
                markersize=size,
                zorder=3,
                label=f"{kind or 'no verdict'} ({len(mine)})",
            )
        for node in [node for node in nodes if node.is_ancestor][-_MOST_LABELS:]:
            axes.annotate(
                node.entry.tactic,
                (node.order, node.depth),
                (6, 4),
                textcoords="offset points",
                fontsize=9,
                color=COLOURS["kept"],
            )
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("candidate, in the order proposed")
        axes.set_ylabel("ancestors")
        axes.margins(x=0.06, y=0.14)
        legend_above(axes)
        return as_svg(
            figure,
            "lineage",
            "Lineage",
            f"{len(nodes)} candidates; the champion has "
            f"{max((node.depth for node in nodes if node.is_ancestor), default=0)} ancestors.",
        )


def group_figures(material: ReportMaterial) -> list[tuple[str, str]]:
    """For each profiled step its name and bars of time against the floor."""
    steps = dict.fromkeys(group.step for group in material.groups)
    return [
        (step, _group_figure(step, [g for g in material.groups if g.step == step], place))
        for place, step in enumerate(steps)
    ]


def _group_figure(step: str, groups: list[GroupTime], place: int) -> str:
    largest = sorted(groups, key=lambda group: -group.measured_ns)[:_MOST_GROUPS]
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": f"groups{place}"}):
        figure, axes = one_axes(8.6, 1.1 + 0.36 * len(largest))
        rows = range(len(largest))
        scale, unit = (1e6, "ms") if largest[0].measured_ns > 1e6 else (1e3, "µs")
        measured = [group.measured_ns / scale for group in largest]
        axes.barh(rows, measured, 0.62, color=COLOURS["kept"], alpha=0.82, label="measured")
        axes.barh(
            [row for row in rows if largest[row].floor_ns is not None],
            [(group.floor_ns or 0) / scale for group in largest if group.floor_ns is not None],
            0.2,
            color=INK,
            label="floor",
        )
        widest = max(measured)
        for row, group in enumerate(largest):
            share = "" if not group.floor_ns else f", {group.floor_ns / group.measured_ns:.0%}"
            axes.text(
                measured[row] + widest * 0.01,
                row,
                f"{duration(group.measured_ns)}{share}",
                va="center",
                fontsize=9,
            )
        axes.set_yticks(
            list(rows),
            [
                f"{group.ops}" + (f"  (×{group.calls})" if group.calls > 1 else "")
                for group in largest
            ],
            fontsize=9,
        )
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_xlim(0, widest * 1.16)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.set_xlabel(f"{unit} a step; behind each bar, the share of the floor that it reaches")
        legend_above(axes)
        total = sum(group.measured_ns for group in groups)
        return as_svg(
            figure,
            f"groups{place}",
            f"Time per group: {step}",
            f"{len(groups)} kinds of groups take {duration(total)} a step; "
            f"the largest is {largest[0].ops} with {duration(largest[0].measured_ns)}.",
        )


def tactics_figure(material: ReportMaterial) -> str | None:
    """Gain of each tactic that won anything."""
    won = sorted((t for t in material.tactics if t.kept), key=lambda tactic: -tactic.gain)
    if not won:
        return None
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "tactics"}):
        figure, axes = one_axes(8.6, 0.8 + 0.34 * len(won))
        rows = range(len(won))
        axes.hlines(rows, 1.0, [tactic.gain for tactic in won], color=COLOURS["kept"], lw=2.2)
        axes.plot([tactic.gain for tactic in won], rows, "o", color=COLOURS["kept"], markersize=7)
        for row, tactic in enumerate(won):
            axes.annotate(
                ratio(tactic.gain),
                (tactic.gain, row),
                (9, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
            )
        axes.set_xscale("log")
        axes.set_xlim(0.97, max(tactic.gain for tactic in won) * 1.25)
        plain_log_ticks(axes.xaxis, *axes.get_xlim())
        axes.set_yticks(list(rows), [tactic.tactic for tactic in won])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_ylim(len(won) - 0.4, -0.6)
        axes.set_xlabel("product of the measured effects of what was kept")
        return as_svg(
            figure,
            "tactics",
            "Gain of each tactic",
            "; ".join(f"{tactic.tactic} {ratio(tactic.gain)}" for tactic in won),
        )


def selection_figure(material: ReportMaterial) -> str | None:
    """Speed-up when it was selected against speed-up when it was confirmed; on the diagonal the
    search flattered itself by nothing."""
    gaps = material.judge.gaps if material.judge is not None else ()
    # One great leap would press all the small steps into a corner; the text tells of the whole.
    drawn = [gap for gap in gaps if gap.name != WHOLE_SEARCH] or list(gaps)
    if not drawn:
        return None
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "selection"}):
        figure, axes = one_axes(5.2, 4.6)
        ends = [
            value
            for gap in drawn
            for held in (gap.selected, gap.confirmed)
            for value in (held.value, held.low or held.value, held.high or held.value)
        ]
        low, high = min([*ends, 1.0]) / 1.02, max([*ends, 1.0]) * 1.02
        axes.plot([low, high], [low, high], color=RULE, linewidth=1.2, zorder=1)
        for gap in drawn:
            x, y = gap.selected, gap.confirmed
            if x.low is not None and x.high is not None:
                axes.hlines(y.value, x.low, x.high, color=COLOURS["kept"], lw=1.2)
            if y.low is not None and y.high is not None:
                axes.vlines(x.value, y.low, y.high, color=COLOURS["kept"], lw=1.2)
            axes.plot([x.value], [y.value], "o", color=COLOURS["kept"], markersize=6, zorder=3)
            axes.annotate(
                gap.name, (x.value, y.value), (7, -12), textcoords="offset points", fontsize=9
            )
        for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
            scale("log")
            plain_log_ticks(axis, low, high, most=5)
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_xlabel("speed-up when it was selected")
        axes.set_ylabel("speed-up when it was confirmed")
        return as_svg(
            figure,
            "selection",
            "Selection against confirmation",
            "; ".join(
                f"{gap.name} {ratio(gap.selected.value)} selected, "
                f"{ratio(gap.confirmed.value)} confirmed"
                for gap in drawn
            ),
        )


def _rail(axes: Any, places: list[int]) -> None:
    # What was not timed has no height: it stands on a rail at the foot.
    if places:
        axes.plot(
            places,
            [0.05] * len(places),
            "x",
            color=COLOURS["void"],
            transform=axes.get_xaxis_transform(),
            markersize=5.5,
            label=f"not timed: void, or wrong ({len(places)})",
        )
