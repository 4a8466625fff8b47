"""The tables of benchmarks/judge/README.md, from results/*.json and noise.json, and the coverage
table of docs/judge.md.

.venv/bin/python benchmarks/judge/tables.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
JUDGE = HERE.parents[1] / "docs/judge.md"
COVERAGE = "<!-- coverage: written by benchmarks/judge/tables.py -->", "<!-- end of coverage -->"
BEGIN, END = "<!-- tables: written by benchmarks/judge/tables.py -->", "<!-- end of tables -->"


def percent(held: dict[str, Any]) -> str:
    return f"{held['rate']:.1%} ({held['low']:.1%} – {held['high']:.1%})"


def tables() -> str:
    held = json.loads((HERE / "results/campaigns.json").read_text())
    lines = [
        f"{held['campaigns']} campaigns of {held['candidates']} clones for each kind of noise, "
        f"seed {held['seed']}. A campaign counts if it promotes any.",
        "",
        "| noise of a block | this judge | median of three, kept at 1 % | blocks a clone |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['noise']} | {percent(row['false_promotion'])} | "
        f"{percent(row['false_promotion_median_of_three'])} | {row['blocks_per_clone']:.1f} |"
        for row in held["rows"]
    ]
    lines += [
        "",
        "| noise of a block | effect | seen, first after a promotion | in blocks (median) | "
        "seen behind eleven clones | median of three says so |",
        "|---|---|---|---|---|---|",
    ]
    for row in held["rows"]:
        for effect, found in row["power"].items():
            blocks = "-" if found["blocks"] is None else f"{found['blocks']:.0f}"
            lines.append(
                f"| {row['noise']} | {float(effect):.0%} | {found['first']['rate']:.0%} | "
                f"{blocks} | {found['behind_eleven_clones']['rate']:.0%} | "
                f"{found['median_of_three']['rate']:.0%} |"
            )
    noise = HERE / "noise.json"
    if noise.exists():
        told = json.loads(noise.read_text())
        lines += [
            "",
            f"Recorded: {told['target']} against itself, {len(told['log_ratios'])} blocks on "
            f"{told['processor']}, {told['cores']} cores, {told['at']}; sd {told['sd']:.2%}, "
            f"autocorrelation {told['autocorrelation']:.2f}, ratio {told['low']:.4f} – "
            f"{told['high']:.4f}; {told['seconds_per_block']:.1f} s a block.",
        ]
    return "\n".join([*lines, "", *remedies()])


def remedies() -> list[str]:
    held = json.loads((HERE / "results/remedies.json").read_text())
    lines = [
        f"Remedies for neighbours that are alike (remedies.py, {held['campaigns']} campaigns of "
        f"each, seed {held['seed']}, without the bootstrap). In brackets the mean number of blocks "
        "of those that were seen, first after a promotion.",
        "",
        "| one more test | false promotion, alike (0.4) | independent | 1 % seen, independent | "
        "2 % | 5 % | 5 %, alike |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in held["rows"]:
        alike, normal = row["neighbours alike (0.4)"], row["normal"]
        cells = [seen(normal[effect]) for effect in ("0.01", "0.02", "0.05")]
        lines.append(
            f"| {row['remedy']} | {percent(alike['false_promotion'])} | "
            f"{percent(normal['false_promotion'])} | {' | '.join(cells)} | {seen(alike['0.05'])} |"
        )
    return lines


def seen(held: dict[str, Any]) -> str:
    blocks = "" if held["blocks"] is None else f" ({held['blocks']:.1f})"
    return f"{held['seen']:.0%}{blocks}"


def coverage() -> str:
    held = json.loads((HERE / "results/coverage.json").read_text())
    lines = [
        f"{held['trials']} made trials each, nominal 95 %, with the 95 % interval of the rate:",
        "",
        "| noise | blocks | blocks alone (`blocks/1`) | with their requests (`hierarchical/1`) | "
        "width, times |",
        "|---|---|---|---|---|",
    ]
    for row in held["rows"]:
        alone, both = row["blocks/1"], row["hierarchical/1"]
        lines.append(
            f"| {row['noise']} | {row['blocks']} | {percent(alone)} | {percent(both)} | "
            f"{both['median_width'] / alone['median_width']:.2f} |"
        )
    return "\n".join(lines)


def with_table(text: str, marks: tuple[str, str], table: str) -> str:
    """The text with what stands between two marks replaced."""
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    return f"{before}{marks[0]}\n\n{table}\n\n{marks[1]}{after}"


def main() -> int:
    differ = 0
    for path, marks, table in ((README, (BEGIN, END), tables()), (JUDGE, COVERAGE, coverage())):
        text = path.read_text()
        made = with_table(text, marks, table)
        if "--check" not in sys.argv:
            path.write_text(made)
        elif made != text:
            differ += 1
            print(f"{path.name} is not what the results say: run tables.py")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
