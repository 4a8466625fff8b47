"""The way in: one file for each command."""

from __future__ import annotations

import sys

import typer

# Typer carries its own copy of click: the plain package's classes are not what it raises.
from typer._click.exceptions import ClickException

from enginewright.cli.build import build
from enginewright.cli.doctor import doctor
from enginewright.cli.inspect import inspect
from enginewright.cli.log import log
from enginewright.cli.show import show
from enginewright.errors import EnginewrightError

app = typer.Typer(
    help="An inference engine factory: a target goes in, a verified compiled engine comes out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in (build, inspect, log, show, doctor):
    app.command()(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Errors end as `error: …` and `hint: …` on stderr, with their exit code."""
    try:
        code = app(args=arguments, standalone_mode=False)
    except EnginewrightError as error:
        _stop(error.message, error.hint, error.exit_code)
    except ClickException as error:
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
