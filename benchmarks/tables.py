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


def all_tables(results: Path) -> str:
    """Every result file, in the order of names, more threads first."""
    records = []
    for path in sorted(results.glob("*.json")):
        record = json.loads(path.read_text())
        name = path.name.removesuffix(f".{record['threads']}-threads.json")
        records.append((name, -int(record["threads"]), record))
    records.sort(key=lambda held: held[:2])
    if not records:
        return NONE_YET
    return "\n".join(section(record, name) for name, _, record in records)


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
