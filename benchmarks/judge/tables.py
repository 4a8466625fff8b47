"""The tables of benchmarks/judge/README.md, from results/campaigns.json and noise.json.

.venv/bin/python benchmarks/judge/tables.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
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
    return "\n".join(lines)


def main() -> int:
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"
    if "--check" in sys.argv:
        if made != text:
            print("benchmarks/judge/README.md is not what the results say: run tables.py")
        return int(made != text)
    README.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
