"""`enginewright bench`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from enginewright.cli.output import JsonFlag, print_json
from enginewright.cli.places import find_run, open_archive, open_store, run_folder
from enginewright.cli.result_table import print_comparison
from enginewright.errors import UsageError
from enginewright.settings import load_settings
from enginewright.swarm.run_state import RunState
from enginewright.swarm.workbench import Arms
from enginewright.target import load_target


def bench(
    run: Annotated[str | None, typer.Argument(help="A run; the latest if left out.")] = None,
    blocks: Annotated[int, typer.Option(min=3, max=200, help="Blocks of each engine.")] = 6,
    as_json: JsonFlag = False,
) -> None:
    """Measure a run's champion again beside its naive engine and baselines, on fresh inputs.

    Nothing is kept: the run stays as it is.
    """
    # Imported when asked for: together they take seconds.
    from enginewright.evaluation.judge_settings import JudgeSettings
    from enginewright.swarm.judging import Judging
    from enginewright.swarm.sentinel_outcomes import false_promotion
    from enginewright.swarm.subject import read_subject

    archive = open_archive()
    record = find_run(archive, run)
    folder = run_folder(record)
    state = RunState(archive, open_store(), record.id)
    naive = state.naive()
    if naive is None or not folder.engine(naive[0].id).exists():
        raise UsageError(
            f"run {record.id} has no engine yet", hint="run `enginewright build` again"
        )
    champion = state.champion()
    settings = load_settings()
    subject, _ = read_subject(load_target(folder.target), settings, _say)
    judging = Judging(settings.engine_program, JudgeSettings())
    try:
        with tempfile.TemporaryDirectory(prefix="enginewright-bench-") as work:
            arms = Arms(
                naive=folder.engine(naive[0].id),
                champion=folder.engine(champion.id),
                candidate=folder.engine(champion.id),
                work=Path(work),
            )
            found = judging.confirm(subject, arms, blocks, _say)
    finally:
        judging.close()
    result: dict[str, Any] = {
        "run": record.id,
        "target": subject.target.name,
        "champion_candidate": champion.id,
        "naive": found.naive,
        "champion": found.champion,
        "baselines": found.baselines,
        "speedup": found.speedup,
        "floor_share": found.floor_share,
        "acceptance": found.acceptance,
        "false_promotion": false_promotion(archive).to_json(),
        "wrong": found.wrong,
        "confirmation": {"blocks": found.blocks, "disturbed_blocks": found.disturbed_blocks},
    }
    if as_json:
        print_json(result)
    else:
        print_comparison(result)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
