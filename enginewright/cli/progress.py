"""What a build shows while it works, on stderr: a live panel on a terminal, plain lines
elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from enginewright.swarm.events import Listener, Told
from enginewright.target import Target

LAST_VERDICTS = 5
"""Verdicts that the panel shows."""
_STYLES = {"kept": "green", "rejected": "yellow", "void": "magenta"}


@contextmanager
def show_progress(target: Target) -> Iterator[Listener]:
    """A listener that shows a build of `target` on stderr while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(target)
        return
    panel = Panel(target)
    with Live(panel, console=console, refresh_per_second=4, transient=True, redirect_stdout=False):
        yield panel.hear
    for line in panel.summary():
        print(line, file=sys.stderr)


def line_of(told: Told) -> str | None:
    """One line for people, or None for what needs none."""
    held = told.details
    match told.kind:
        case "phase":
            return f"== {held['phase']}"
        case "said":
            return f"   {held['text']}"
        case "run":
            verb = "going on with" if held["resumed"] else "run"
            return f"{verb} {held['run']}: {held['model']} on {held['machine']}"
        case "naive":
            return f"naive engine: {held['reason']}"
        case "bar":
            return f"the bar: {_figures(held['naive'])}"
        case "trial":
            who = (
                f"{held['candidate']} ({held['tactic']}, {held['predicted_effect']:.2f}x expected)"
            )
            return f"trial of {who}: {held['hypothesis']}"
        case "verdict":
            return f"{held['candidate']} {held['reason']}"
        case "champion":
            return f"champion: {held['candidate']} ({held['tactic']})"
        case "calibrated":
            return (
                f"the champion against itself: {held['low']:.4f} to {held['high']:.4f}; a trial "
                f"sees effects of {100 * held['detectable']:.2g} % and more"
            )
        case "sentinel":
            says = {True: "as it should be", False: "THE JUDGE IS WRONG", None: "says nothing"}
            return (
                f"sentinel {held['sentinel']}: {held['verdict']} ({says[held['as_expected']]}; "
                f"expected {held['expected']})"
            )
        case "exchange":
            what = held["failure"] or "answered"
            money = f", {held['spent_money']:.4f} in money" if held["spent_money"] else ""
            return (
                f"{held['agent']} {held['conversation']}.{held['turn']}: {what}; "
                f"{held['spent_tokens']:,} tokens{money} spent"
            )
        case "kernel_kept":
            return f"kernel {held['kernel']} is kept for later runs"
        case "searched":
            return f"search ends: {held['reason']}"
        case "confirmed":
            return f"confirmed: {held['reason']}"
        case "shipped":
            return f"shipped: {held['binary']}"
        case "answered":
            return f"asked: {held['request']}\nanswer: {held['answer']}"
        case "stopped":
            return f"stopped: {held['error']}"
        case _:
            return None


class Lines:
    """A line for each thing that happens, with the time and the budget left."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(self, told: Told) -> None:
        """Show it."""
        line = line_of(told)
        if line is not None:
            left = f"{told.left_seconds / 60:.1f} min, {told.left_trials} trials left"
            print(f"[{told.elapsed_seconds:7.1f} s; {left}] {line}", file=sys.stderr, flush=True)


@dataclass
class Panel:
    """The live view: phase, champion, counts, last verdicts, budget."""

    target: Target
    """What is built."""
    phase: str = "inspect"
    """What is going on."""
    run: str = ""
    """Id of the run."""
    champion: str = "none yet"
    """Best engine so far."""
    now: str = ""
    """Candidate on trial."""
    said: str = ""
    """Last line of progress."""
    counts: dict[str, int] = field(default_factory=lambda: {"kept": 0, "rejected": 0, "void": 0})
    """Trials by verdict."""
    verdicts: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=LAST_VERDICTS))
    """Kind and line of the last ones."""
    gain: float = 1.0
    """Product of the kept speed-ups: an estimate until confirmed."""
    elapsed_seconds: float = 0.0
    """Of the run, when last heard."""
    left: str = ""
    """Budget left, when last heard."""
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))
    """Shows that something moves."""

    def hear(self, told: Told) -> None:
        """Take in what happened."""
        held = told.details
        self.elapsed_seconds = told.elapsed_seconds
        self.left = f"{told.left_seconds / 60:.1f} min, {told.left_trials} trials"
        match told.kind:
            case "phase":
                self.phase, self.said, self.now = held["phase"], "", ""
            case "run":
                self.run = held["run"] + (" (resumed)" if held["resumed"] else "")
            case "naive":
                self.champion = f"{held['candidate']} (naive)"
            case "trial":
                self.now = f"{held['candidate']} ({held['tactic']}): {held['hypothesis']}"
            case "verdict":
                self._take_verdict(held)
            case "champion":
                self.champion = f"{held['candidate']} ({held['tactic']})"
        self.said = line_of(told) or self.said

    def _take_verdict(self, held: dict[str, Any]) -> None:
        self.counts = {name: held[name] for name in ("kept", "rejected", "void")}
        self.verdicts.append((held["verdict"], f"{held['candidate']} {held['reason']}"))
        if held["verdict"] == "kept" and held["speedup"] is not None:
            self.gain *= held["speedup"]["value"]
        self.now = ""

    def __rich__(self) -> Group:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="ellipsis")
        grid.add_row("target", f"{self.target.name}  {self.run}")
        grid.add_row("phase", self.phase)
        gain = f"  about {self.gain:.2f}x naive" if self.gain != 1.0 else ""
        grid.add_row("champion", self.champion + gain)
        grid.add_row("trials", ", ".join(f"{n} {name}" for name, n in self.counts.items()))
        grid.add_row("budget left", self.left)
        if self.now:
            grid.add_row("on trial", Text(self.now))
        for kind, line in self.verdicts:
            grid.add_row("", Text(line, style=_STYLES[kind]))
        self.spinner.update(text=Text(self.said.strip().splitlines()[0] if self.said else ""))
        return Group(grid, self.spinner)

    def summary(self) -> list[str]:
        """What stays on the screen when the panel goes."""
        lines = [f"{self.target.name}  {self.run}".rstrip()]
        return lines + [line for _, line in self.verdicts]


def _figures(metrics: dict[str, dict[str, Any]]) -> str:
    names = ("decode_tokens_per_s", "prefill_tokens_per_s", "ttft_ms", "texts_per_s", "request_ms")
    return ", ".join(f"{name} {metrics[name]['value']:.4g}" for name in names if name in metrics)
