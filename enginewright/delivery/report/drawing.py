"""How the report's figures look, and their way into the page as SVG."""

from __future__ import annotations

import io
import math
import re
from html import escape
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

INK = "#1d2a33"
SOFT = "#6b7780"
RULE = "#d9dee2"
COLOURS = {"kept": "#0a7d5a", "rejected": "#8d99a3", "void": "#b8660e"}
STYLE = {
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


def one_axes(width: float, height: float) -> tuple[Figure, Any]:
    """A figure of that size in inches, with one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def legend_above(axes: Any, handles: dict[str, Any] | None = None) -> None:
    """Above the data, where nothing can lie under it; `handles` by label, or those of the axes."""
    held = handles or dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    axes.legend(
        held.values(),
        held.keys(),
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(held),
        fontsize=9.5,
        handletextpad=0.4,
        columnspacing=1.4,
    )


def plain_log_ticks(axis: Any, low: float, high: float, *, most: int = 7) -> None:
    """At most `most` round ticks, about evenly apart: the roundest numbers first."""
    apart = math.log(high / low) / most
    held: list[float] = []
    for digits in ((1,), (2, 5), (1.5, 3, 4, 7), (1.1, 1.2, 1.3, 1.4, 1.7, 6, 8, 9)):
        for tick in (digit * 10.0**power for power in range(-3, 5) for digit in digits):
            is_free = all(abs(math.log(tick / other)) > apart for other in held)
            if low <= tick <= high and is_free:
                held.append(tick)
    if len(held) < 3:
        step = 10 ** math.floor(math.log10((high - low) / 2))
        first = math.ceil(low / step)
        held = [step * count for count in range(first, int(high / step) + 1)]
        held = held[:: max(1, len(held) // most)]
    axis.set_major_locator(FixedLocator(sorted(held)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}×"))


def as_svg(figure: Figure, name: str, title: str, description: str) -> str:
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
