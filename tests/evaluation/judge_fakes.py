"""Arms that run the fake engine, and rules for a machine that others use too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enginewright.evaluation.engine_process import EngineArm
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.statistics import Looks
from enginewright.evaluation.trial import TrialJob
from enginewright.target import Target

FAKE = Path(__file__).with_name("fake_engine.py")

SETTINGS = JudgeSettings(
    looks=Looks(blocks=(6,), alphas=(0.02,), overwhelming=10.0, batch_blocks=1),
    other_share_limit=10.0,
    steal_share_limit=10.0,
    most_rounds=1,
    load_share_limit=10.0,
    closeness_lengths=(),
    request_timeout_seconds=5.0,
)
"""One look, every block for itself, and no word about who else uses the machine: it is shared
when tests run."""

JobMaker = Callable[..., TrialJob]


def fake_arm(name: str, behaviour: str = "honest", **settings: Any) -> EngineArm:
    given = json.dumps({"behaviour": behaviour, **settings})
    return EngineArm(
        name=name,
        fingerprint=f"{name} {given}",
        command=(sys.executable, str(FAKE), given),
        timeout_seconds=settings.pop("timeout_seconds", 30.0),
    )


def make_target(scenarios: list[dict[str, Any]], **sections: Any) -> Target:
    return Target.model_validate_json(
        json.dumps(
            {
                "name": "test",
                "model": {"checkpoint": "x"},
                "workload": {"scenario": scenarios},
                "budget": {"wall_minutes": 1, "trials": 1},
                **sections,
            }
        )
    )
