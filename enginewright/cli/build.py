"""`enginewright build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_json
from enginewright.cli.progress import show_progress
from enginewright.cli.result_table import print_result
from enginewright.errors import EnginewrightError, UsageError
from enginewright.evaluation.sandbox import Level
from enginewright.settings import load_settings
from enginewright.target import choose_agents, load_target


def build(
    target: Annotated[Path, typer.Argument(help="A target file; `init` writes one.")],
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start a new run though an unfinished one could go on.")
    ] = False,
    warm: Annotated[
        bool, typer.Option("--warm/--no-warm", help="Begin with what memory proposes.")
    ] = True,
    agents: Annotated[
        str | None,
        typer.Option(
            help="Who proposes: `tuner`, `coder`, `guest` or names of the target's agents, with "
            "commas; `coder:recorded` replays. Left out: the tuner and all of the target.",
        ),
    ] = None,
    sandbox: Annotated[
        str,
        typer.Option(
            help="How candidates are shut in: `strong`, or `weak` where this machine has no "
            "namespaces and you trust the candidates.",
        ),
    ] = "strong",
    as_json: JsonFlag = False,
) -> int:
    """Build a verified engine for a target, make it faster within the budget, and ship it.

    Killed or interrupted, the same command goes on where it stopped. Ends with 8 if an engine was
    shipped that misses a criterion of the target.
    """
    # Imported when asked for: together they take seconds.
    from enginewright.swarm.agents.assemble import prepare_agents
    from enginewright.swarm.loop import Options, build_engine_for
    from enginewright.swarm.real_hands import real_hands

    loaded = load_target(target)
    settings = load_settings()
    level = sandbox_level(sandbox)
    taking_part = choose_agents(loaded.target, agents)
    prepared = prepare_agents(taking_part, settings, target=loaded.target.name)
    with (
        real_hands(settings, sandbox=level, prepared=prepared) as hands,
        show_progress(loaded.target) as listener,
    ):
        try:
            result = build_engine_for(
                loaded,
                settings,
                hands,
                options=Options(fresh=fresh, warm=warm, agents=taking_part),
                listener=listener,
            )
        except EnginewrightError as error:
            if error.hint is None:
                error.hint = "the same command goes on where this run stopped"
            raise
    if as_json:
        print_json(result)
    else:
        print_result(result)
    return 0 if result["accepted"] else MISSED


def sandbox_level(text: str) -> Level:
    """Raises: UsageError for another word than `strong` or `weak`."""
    match text:
        case "strong" | "weak":
            return text
        case _:
            raise UsageError(
                f"--sandbox is {text!r}; expected strong or weak",
                hint="strong is the default; weak leaves files and processes in reach",
            )


MISSED = 8
"""Exit code: an engine was shipped, but a criterion does not hold."""
