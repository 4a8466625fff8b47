"""`enginewright judge`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.evaluation.selftest import selftest
from enginewright.settings import load_settings
from enginewright.target import load_target

TOOTHLESS = 9
"""Exit code: a gate was taken out, and nothing slipped through."""
REJECTED, VOID = 10, 11
"""Exit codes of a trial that kept nothing."""

Engine = Annotated[Path, typer.Option(exists=True, file_okay=False, help="An engine folder.")]

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


@judge.command("trial")
def run_trial(
    target: Annotated[Path, typer.Argument(help="The target file.")],
    reference: Engine,
    champion: Engine,
    candidate: Engine,
    sandbox: Annotated[
        str, typer.Option(help="What engines run in: strong, weak, or none for your own.")
    ] = "strong",
    as_json: JsonFlag = False,
) -> int:
    """Judge one engine folder against another, as a campaign does.

    `--reference` is the engine whose outputs are taken for right. Ends with 0 if the candidate is
    kept, 10 if it is rejected, 11 if the measurement was no good.
    """
    # Imported when asked for: together they take seconds.
    from enginewright.errors import UsageError
    from enginewright.evaluation.judge_client import JudgeProcess
    from enginewright.evaluation.judge_settings import JudgeSettings
    from enginewright.evaluation.sandbox import open_sandbox
    from enginewright.swarm.judging import judge_case
    from enginewright.swarm.subject import read_subject

    if sandbox not in ("strong", "weak", "none"):
        raise UsageError(
            f"--sandbox is {sandbox!r}; expected strong, weak or none",
            hint="none is for engines that you built yourself",
        )
    settings = load_settings()
    shut_in = None
    if sandbox in ("strong", "weak"):
        shut_in = open_sandbox(settings.sandbox_program, sandbox)  # type: ignore[arg-type]
    subject, _ = read_subject(load_target(target), settings, _say)
    case = judge_case(subject, reference, settings.engine_program, JudgeSettings(), sandbox=shut_in)
    with tempfile.TemporaryDirectory(prefix="enginewright-judge-") as work:
        process = JudgeProcess(case, Path(work) / "judge.log")
        try:
            found = process.ask(
                "trial", champion=str(champion), candidate=str(candidate), work=work
            )
        finally:
            process.close()
    if as_json:
        print_json(found)
    else:
        Console().print(found["headline"], highlight=False)
    return {"kept": 0, "rejected": REJECTED, "void": VOID}[found["verdict"]]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
