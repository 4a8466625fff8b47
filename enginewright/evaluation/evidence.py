"""Evidence as JSON: all that anybody needs to decide again. Prompts follow from the seed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.load_records import Answer
from enginewright.evaluation.passes import Pass
from enginewright.target import Machine, Target

FORMAT = "enginewright.evidence/1"


def frame_json(
    target: Target,
    machine: Machine,
    settings: JudgeSettings,
    *,
    seed: int,
    sandbox: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What was asked, on which machine, by which rules, from which seed, in which sandbox (None:
    engines were trusted)."""
    return {
        "format": FORMAT,
        "at": time.time(),
        "seed": seed,
        "target": target.model_dump(mode="json"),
        "machine": machine.to_json(),
        "load_average": list(os.getloadavg()),
        "settings": asdict(settings),
        "sandbox": sandbox,
    }


def block_json(
    order: Sequence[str], passes: Mapping[str, Pass], *, is_contended: bool
) -> dict[str, Any]:
    """One block: its passes in the order taken."""
    return {
        "order": list(order),
        "contended": is_contended,
        "passes": {name: pass_json(seen) for name, seen in passes.items()},
    }


def pass_json(seen: Pass) -> dict[str, Any]:
    """One pass with its raw samples."""
    return {
        "start_seconds": seen.start_seconds,
        "memory": None if seen.memory is None else asdict(seen.memory),
        "server_cpu_seconds": seen.server_cpu_seconds,
        "contention": asdict(seen.contention),
        "load_share": seen.load_share,
        "stopped": None if seen.stopped is None else asdict(seen.stopped),
        "engagement": None if seen.engagement is None else asdict(seen.engagement),
        "answers": [_answer_json(answer) for answer in seen.answers],
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    """Times relative to the sending; without embeddings, which are large and follow from the seed
    and the engine."""
    return {
        "id": answer.id,
        "scenario": answer.scenario,
        "stream": answer.stream,
        "sent": answer.sent,
        "seconds": answer.ended - answer.sent,
        "chunk_seconds": [moment - answer.sent for moment in answer.chunk_times],
        "chunk_tokens": list(answer.chunk_tokens),
        "counted_by": answer.counted_by,
        "token_ids": None if answer.token_ids is None else list(answer.token_ids),
        "finish_reason": answer.finish_reason,
    }
