"""`enginewright judge`."""

from __future__ import annotations

import typer
from rich.console import Console

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.evaluation.selftest import selftest

TOOTHLESS = 9
"""Exit code: a gate was taken out, and nothing slipped through."""

judge = typer.Typer(help="The judge itself.", no_args_is_help=True)


@judge.callback()
def _judge() -> None:
    """The judge itself."""


@judge.command("selftest")
def run_selftest(as_json: JsonFlag = False) -> int:
    """Take out each gate and loosen each bound: something bad must slip through each time.

    Ends with 9 if a gate can be taken out without anything to show for it.
    """
    mutations = selftest()
    useless = [mutation.name for mutation in mutations if not mutation.slipped]
    if as_json:
        print_json(
            {
                "mutations": [
                    {"name": held.name, "slipped": list(held.slipped)} for held in mutations
                ],
                "useless": useless,
            }
        )
    else:
        rows = ((held.name, "; ".join(held.slipped) or "NOTHING") for held in mutations)
        print_rows(("judge", "lets through"), rows)
        if not useless:
            Console().print("Every gate and bound matters.")
    return TOOTHLESS if useless else 0
