"""The report's figures: SVG text to stand inside a page, in the page's own type."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from enginewright.delivery.report.lineage import search_steps, tree
from enginewright.delivery.report.material import GroupTime, ReportMaterial
from enginewright.delivery.report.wording import duration, number, ratio

INK = "#1d2a33"
SOFT = "#6b7780"
RULE = "#d9dee2"
COLOURS = {"kept": "#0a7d5a", "rejected": "#8d99a3", "void": "#b8660e"}
FLOOR = "#c9d3da"
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_MOST_LABELS = 12
_MOST_GROUPS = 14


def speedup_figure(material: ReportMaterial) -> str | None:
    """Every timed trial on the scale of speed over the first engine, with its interval."""
    steps = search_steps(material)
    timed = [step for step in steps if step.speedup is not None]
    if not timed:
        return None
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": "speedup"}):
        figure, axes = _axes(8.6, 3.9)
        places = [0, *(step.order for step in steps)]
        heights = [1.0, *(step.after for step in steps)]
        axes.step(places, heights, where="post", color=COLOURS["kept"], linewidth=1.6, alpha=0.55)
        for kind, marker, filled in (("rejected", "o", False), ("kept", "o", True)):
            mine = [step for step in timed if step.trial.verdict == kind]
            for step in mine:
                assert step.speedup is not None
                if step.speedup.low is not None and step.speedup.high is not None:
                    axes.vlines(
                        step.order, step.speedup.low, step.speedup.high, color=COLOURS[kind], lw=1.2
                    )
            axes.plot(
                [step.order for step in mine],
                [step.speedup.value for step in mine if step.speedup],
                marker,
                color=COLOURS[kind],
                markerfacecolor=COLOURS[kind] if filled else "white",
                markersize=6 if filled else 4.5,
                label=f"{kind} ({len(mine)})",
            )
        _rail(axes, [step.order for step in steps if step.speedup is None])
        kept = [step for step in timed if step.trial.verdict == "kept"]
        for step in kept[-_MOST_LABELS:]:
            axes.annotate(
                step.tactic,
                (step.order, step.after),
                (-5, 7),
                textcoords="offset points",
                ha="right",
                fontsize=9,
                color=COLOURS["kept"],
            )
        axes.set_yscale("log")
        _plain_log_ticks(axes.yaxis, *axes.get_ylim())
        axes.grid(axis="y", color=RULE, linewidth=0.6)
        axes.set_xlabel("trial, in the order finished")
        axes.set_ylabel("speed over the naive engine")
        axes.set_xlim(-0.5, len(steps) + 0.8)
        axes.legend(frameon=False, loc="lower right", fontsize=9.5)
        return _svg(
            figure,
            "speedup",
            "Speed-up over trials",
            f"{len(steps)} trials; the champion ends at {ratio(heights[-1])} the speed of the "
            "naive engine, as the search measured it.",
        )


def lineage_figure(material: ReportMaterial) -> str | None:
    """Candidates by the order proposed and by the number of ancestors."""
    nodes = tree(material)
    if len(nodes) < 2:
        return None
    by_id = {node.entry.candidate: node for node in nodes}
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": "lineage"}):
        deepest = max(node.depth for node in nodes)
        figure, axes = _axes(8.6, min(5.2, 1.7 + 0.34 * deepest))
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
                label=f"{kind or 'screened out, or not tried'} ({len(mine)})",
            )
        for node in [node for node in nodes if node.is_ancestor][-_MOST_LABELS:]:
            axes.annotate(
                node.entry.tactic,
                (node.order, node.depth),
                (-7, -3),
                textcoords="offset points",
                ha="right",
                fontsize=9,
                color=COLOURS["kept"],
            )
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        axes.set_xlabel("candidate, in the order proposed")
        axes.set_ylabel("ancestors")
        axes.margins(x=0.09, y=0.14)
        axes.legend(frameon=False, loc="upper right", fontsize=9.5)
        return _svg(
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
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": f"groups{place}"}):
        figure, axes = _axes(8.6, 0.9 + 0.36 * len(largest))
        rows = range(len(largest))
        measured = [group.measured_ns / 1e3 for group in largest]
        axes.barh(rows, measured, 0.62, color=COLOURS["kept"], alpha=0.82, label="measured")
        axes.barh(
            [row for row in rows if largest[row].floor_ns is not None],
            [(group.floor_ns or 0) / 1e3 for group in largest if group.floor_ns is not None],
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
        axes.set_xlabel("microseconds a step; share of the floor reached behind each bar")
        axes.legend(frameon=False, loc="lower right", fontsize=9.5)
        total = sum(group.measured_ns for group in groups)
        return _svg(
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
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": "tactics"}):
        figure, axes = _axes(8.6, 0.8 + 0.34 * len(won))
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
        _plain_log_ticks(axes.xaxis, *axes.get_xlim())
        axes.set_yticks(list(rows), [tactic.tactic for tactic in won])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_ylim(len(won) - 0.4, -0.6)
        axes.set_xlabel("product of the measured effects of what was kept")
        return _svg(
            figure,
            "tactics",
            "Gain of each tactic",
            "; ".join(f"{tactic.tactic} {ratio(tactic.gain)}" for tactic in won),
        )


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _rail(axes: Any, places: list[int]) -> None:
    # What was not timed has no height: it stands on a rail at the foot.
    if places:
        axes.plot(
            places,
            [0.03] * len(places),
            "x",
            color=COLOURS["void"],
            transform=axes.get_xaxis_transform(),
            markersize=5.5,
            label=f"not timed: void, or wrong ({len(places)})",
        )


def _plain_log_ticks(axis: Any, low: float, high: float) -> None:
    steps = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7)
    ticks = [step * 10.0**power for power in range(-2, 4) for step in steps]
    held = [tick for tick in ticks if low <= tick <= high]
    while len(held) > 8:
        held = held[::2]
    axis.set_major_locator(FixedLocator(held))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{number(value)}×"))


def _svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an `svg` element: ids of its own, a title and a description for readers."""
    held = io.StringIO()
    figure.savefig(held, format="svg", metadata={"Date": None, "Creator": None})
    text = held.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for before in ('id="', 'href="#', "url(#"):
        text = text.replace(before, f"{before}{name}-")
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    label = f'role="img" aria-labelledby="{name}-title {name}-description"'
    return (
        f'{head} {label}>\n<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-description">{escape(description)}</desc>{rest}'
    )
