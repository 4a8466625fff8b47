"""The way in: one file for each command."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

# Typer carries its own copy of click: the plain package's classes are not what it raises.
from typer._click.exceptions import ClickException

from enginewright.cli.audit import audit
from enginewright.cli.bench import bench
from enginewright.cli.build import build
from enginewright.cli.diff import diff
from enginewright.cli.doctor import doctor
from enginewright.cli.init import init
from enginewright.cli.inspect import inspect
from enginewright.cli.judge import judge
from enginewright.cli.log import log
from enginewright.cli.memory import memory
from enginewright.cli.replay import replay
from enginewright.cli.report import report
from enginewright.cli.serve import serve
from enginewright.cli.ship import ship
from enginewright.cli.show import show
from enginewright.cli.target import target
from enginewright.errors import EnginewrightError

app = typer.Typer(
    help="An inference engine factory: a target goes in, a verified compiled engine comes out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in (
    *(init, inspect, build, log, show, diff, replay, audit, report),
    *(serve, bench, ship, memory, doctor),
):
    app.command()(_command)
app.add_typer(target, name="target")
app.add_typer(judge, name="judge")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"enginewright {version('enginewright')}")
        raise typer.Exit


@app.callback()
def _options(
    is_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Errors end as `error: …` and `hint: …` on stderr, with their exit code."""
    try:
        code = app(args=arguments, standalone_mode=False)
    except EnginewrightError as error:
        _stop(error.message, error.hint, error.exit_code)
    except ClickException as error:
        if not error.format_message():
            # No arguments: the help has been printed.
            sys.exit(error.exit_code)
        _stop(error.format_message(), "`--help` lists the options", error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _stop("interrupted", None, 130)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _stop(message: str, hint: str | None, code: int) -> None:
    print(f"error: {message}", file=sys.stderr)
    if hint is not None:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(code)
