"""`enginewright diff`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from enginewright.cli.output import JsonFlag, print_json, print_rows
from enginewright.cli.places import find_candidate, open_archive, open_store
from enginewright.plan import Plan
from enginewright.swarm.plan_difference import plan_difference


def diff(
    first: Annotated[str, typer.Argument(help="A candidate or trial, as `log` names it.")],
    second: Annotated[str, typer.Argument(help="Another.")],
    as_json: JsonFlag = False,
) -> None:
    """Show what two candidates' plans do otherwise: settings, groups, kernels, parameters."""
    archive, store = open_archive(), open_store()
    records = [find_candidate(archive, name) for name in (first, second)]
    plans = [Plan.from_json(store.get(record.plan_sha256)) for record in records]
    found: list[dict[str, Any]] = plan_difference(*plans)
    if as_json:
        print_json({"first": records[0].id, "second": records[1].id, "differences": found})
        return
    if not found:
        print(f"{records[0].id} and {records[1].id} have the same plan")
        return
    columns = ("where", "times", records[0].id, records[1].id)
    print_rows(
        columns, ((row["where"], row["times"], row["first"], row["second"]) for row in found)
    )
