"""This machine's own noise: an engine against itself, block by block, as the judge measures.

    .venv/bin/python benchmarks/judge/record_noise.py ENGINE TARGET [--blocks 40]

ENGINE is an engine folder of a run (`runs/ID/engines/ID-001`), TARGET its target file. Writes
`benchmarks/judge/noise.json`. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from enginewright.evaluation.calibration import calibrate
from enginewright.evaluation.engine_process import EngineArm, serve_command
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.sandbox import open_sandbox
from enginewright.evaluation.trial import TrialJob
from enginewright.model import Graph, resolve_checkpoint
from enginewright.settings import load_settings
from enginewright.target import load_target, probe_machine, threads_for

OUT = Path(__file__).resolve().parent / "noise.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--blocks", type=int, default=40)
    arguments = parser.parse_args()
    settings, loaded = load_settings(), load_target(arguments.target)
    machine = probe_machine(settings.engine_program)
    weights = resolve_checkpoint(loaded.target.model.checkpoint)
    checkpoint = weights if weights.is_dir() else weights.parent
    threads = threads_for(loaded.target)
    arm = EngineArm(
        name="champion",
        fingerprint="itself",
        command=serve_command(
            settings.engine_program, arguments.engine, checkpoint, threads=threads
        ),
        engine=arguments.engine,
        reads=(arguments.engine, checkpoint),
        sandbox=open_sandbox(settings.sandbox_program, "strong"),
    )
    with tempfile.TemporaryDirectory() as work:
        job = TrialJob(
            target=loaded.target,
            graph=Graph.from_json((arguments.engine / "graph.json").read_text()),
            machine=machine,
            tokenizer=arguments.engine / "tokenizer.json",
            champion=arm,
            candidate=arm,
            oracle=None,  # type: ignore[arg-type]
            work=Path(work),
            settings=JudgeSettings(),
        )
        begin = time.monotonic()
        found = calibrate(job, arguments.blocks)
        seconds = time.monotonic() - begin
    told = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "target": loaded.target.name,
        "processor": machine.processor,
        "cores": machine.cores,
        "load_average": list(os.getloadavg()),
        "seconds_per_block": seconds / arguments.blocks,
        **asdict(found),
    }
    OUT.write_text(json.dumps(told, indent=1) + "\n")
    print(
        f"{arguments.blocks} blocks, {told['seconds_per_block']:.1f} s each: sd {found.sd:.4f}, "
        f"autocorrelation {found.autocorrelation:.2f}, 95 % {found.low:.4f} to {found.high:.4f}"
    )


if __name__ == "__main__":
    main()
