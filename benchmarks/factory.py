"""What the factory's own runs cost and gave: champion over naive, share of the floor, seconds for
each candidate, and the loop's own share of the wall time.

    python benchmarks/factory.py runs/ID [runs/ID …]

Reads what `enginewright build` left in each run's folder (`result.json`, `machine.json`); measures
nothing itself. The newest run of a target replaces the one before.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def record_of(run: Path) -> dict[str, Any]:
    """The record of a finished run.

    Raises: SystemExit if the run has no result.
    """
    path = run / "result.json"
    if not path.is_file():
        raise SystemExit(
            f"error: {path} is missing\nhint: the run has not finished; run `enginewright build` "
            "with its target again to resume it"
        )
    result = json.loads(path.read_text())
    machine = json.loads((run / "machine.json").read_text())
    finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(path.stat().st_mtime))
    kept = ("run", "target", "speedup", "floor_share", "acceptance", "trials", "timings")
    return {
        "kind": "factory",
        "machine": {name: machine[name] for name in ("processor", "cores", "kernel")},
        "finished": finished,
        **{name: result[name] for name in kept},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs")
    for run in parser.parse_args().runs:
        record = record_of(run)
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"factory.{record['target']}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{path}: run {record['run']}")


if __name__ == "__main__":
    main()
