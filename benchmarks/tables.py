"""Write the tables of `benchmarks/results/` into `benchmarks/README.md`, between its markers.

python benchmarks/tables.py            rewrite the tables
python benchmarks/tables.py --check    fail if the README has other tables than the results give
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from samples import Comparison, table

FOLDER = Path(__file__).parent
README = FOLDER / "README.md"
START = "<!-- tables: written by benchmarks/tables.py -->"
END = "<!-- end of tables -->"
NONE_YET = "No benchmark has been run on this checkout yet: `benchmarks/results/` is empty.\n"


def section(record: dict[str, Any], name: str) -> str:
    """The tables of one result file, with the machine and the load."""
    threads = record["threads"]
    lines = [f"### {name}, {threads} thread{'s' if threads != 1 else ''}", ""]
    lines += [machine_line(record["machine"]), ""]
    if "least_cosine" in record:
        lines += [
            f"Least cosine of our embeddings with the peer's: {record['least_cosine']:.7f}.",
            "",
        ]
    lines += [quiet_line(record), ""]
    held = record.get("tables") or [
        {"title": "", "peer": record["peer"], "comparisons": record["comparisons"]}
    ]
    for entry in held:
        rows = [Comparison(**row) for row in entry["comparisons"]]
        if entry["title"]:
            lines += [f"{entry['title']}:", ""]
        lines += [table(rows, entry["peer"].split(",")[0] if not entry["title"] else entry["peer"])]
    return "\n".join(lines)


def quiet_line(record: dict[str, Any]) -> str:
    """How much of the machine others had during the blocks that count."""
    others = [held["other_share"] or 0.0 for held in record["contention"]]
    hosts = [held["steal_share"] for held in record["contention"]]
    count = record["contended_blocks"]
    repeated = f"{count} disturbed block{'s' if count != 1 else ''} repeated"
    return (
        f"During a block other processes took at most {max(others):.1%} of the processors and the "
        f"host at most {max(hosts):.1%}; {repeated}."
    )


def machine_line(machine: dict[str, Any]) -> str:
    """Where and when, and how busy the machine was at the end."""
    load = ", ".join(f"{value:.2f}" for value in machine["load_average"])
    return (
        f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}; "
        f"{machine['time']}; load average at the end (1, 5, 15 minutes): {load}."
    )


def factory_table(records: list[dict[str, Any]]) -> str:
    """The factory's own runs, one a line."""
    lines = [
        "### The factory",
        "",
        "Runs of `enginewright build`: what the champion gained on fresh inputs, and what finding "
        "it cost.",
        "",
        "| target | champion / naive | share of the floor | kept, rejected, void | seconds a "
        "candidate: build, check, trial | wall time | the loop's own |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [factory_row(record) for record in records]
    machines = dict.fromkeys(
        f"{record['machine']['processor']}, {record['machine']['cores']} cores, "
        f"{record['machine']['kernel']}; run {record['run']}, {record['finished']}."
        for record in records
    )
    return "\n".join([*lines, "", *machines, ""])


def factory_row(record: dict[str, Any]) -> str:
    """One run."""
    timings = record["timings"]
    seconds = timings["seconds_per_candidate"]
    cost = ", ".join(f"{seconds.get(name, 0.0):.1f}" for name in ("build", "kernel_check", "trial"))
    trials = ", ".join(str(record["trials"][name]) for name in ("kept", "rejected", "void"))
    return (
        f"| {record['target']} | {with_interval(record['speedup'], '{:.2f}')} | "
        f"{with_interval(record['floor_share'], '{:.0%}')} | {trials} | {cost} | "
        f"{timings['wall_seconds'] / 60:.1f} min | {timings['own_share']:.1%} |"
    )


def with_interval(held: dict[str, Any], form: str) -> str:
    """A value, and its interval if it has one."""
    value = form.format(held["value"])
    if held.get("low") is None or held.get("high") is None:
        return value
    return f"{value} ({form.format(held['low'])} – {form.format(held['high'])})"


def all_tables(results: Path) -> str:
    """Every result file: peers in the order of names, more threads first; then the factory."""
    peers, factory = [], []
    for path in sorted(results.glob("*.json")):
        record = json.loads(path.read_text())
        if record.get("kind") == "factory":
            factory.append(record)
            continue
        name = path.name.removesuffix(f".{record['threads']}-threads.json")
        peers.append((name, -int(record["threads"]), record))
    peers.sort(key=lambda held: held[:2])
    found = [section(record, name) for name, _, record in peers]
    if factory:
        found.append(factory_table(factory))
    return "\n".join(found) or NONE_YET


def with_tables(readme: str, tables: str) -> str:
    """The README with `tables` between its markers.

    Raises: SystemExit if a marker is missing.
    """
    if START not in readme or END not in readme:
        raise SystemExit(f"error: {README} lacks `{START}` or `{END}`\nhint: put them back")
    before = readme[: readme.index(START)]
    after = readme[readme.index(END) :]
    return f"{before}{START}\n\n{tables}\n{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    held = README.read_text()
    wanted = with_tables(held, all_tables(FOLDER / "results"))
    if arguments.check:
        if held != wanted:
            raise SystemExit(
                f"error: {README} has other tables than the results give\n"
                "hint: run `python benchmarks/tables.py`"
            )
        return
    README.write_text(wanted)


if __name__ == "__main__":
    main()
