"""`enginewright serve`."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from enginewright.cli.places import engine_of
from enginewright.errors import MachineError
from enginewright.settings import load_settings


def serve(
    engine: Annotated[
        str | None,
        typer.Argument(help="A run, or the folder of an engine; the latest run if left out."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any that is free.")] = 8000,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder of the weights, for an engine's folder.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the API key.")
    ] = None,
    queue: Annotated[int | None, typer.Option(help="Requests that may wait.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads, instead of the plan's.")] = None,
) -> None:
    """Serve a run's champion over HTTP, with OpenAI's routes.

    This process becomes the host program: signals and exit code are its own, and stdout has its
    JSON
    line `{"event": "ready", "address": …}`.
    """
    program = load_settings().engine_program
    if not program.exists():
        raise MachineError(f"there is no host program at {program}", hint="run `make setup`")
    found = engine_of(engine, checkpoint)
    _check_port(host, port)
    command = [str(program), "serve", "--engine", str(found.engine)]
    command += ["--host", host, "--port", str(port)]
    if found.checkpoint is not None:
        command += ["--checkpoint", str(found.checkpoint)]
    for option, value in (
        ("--api-key-env", api_key_env),
        ("--queue", queue),
        ("--threads", threads),
    ):
        if value is not None:
            command += [option, str(value)]
    os.execv(program, command)


def _check_port(host: str, port: int) -> None:
    """Say at once what would otherwise be said after the weights are loaded.

    Raises: MachineError if the address cannot be listened on.
    """
    if port == 0:
        return
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            # Two that bind with SO_REUSEADDR do not clash until one listens.
            probe.listen(1)
    except OSError as error:
        raise MachineError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another with --port, or 0 for any that is free",
        ) from error
