"""The judge put to the test: each of its gates is taken out, each bound loosened, and something bad
must then pass that passed nowhere before. A gate that nothing slips through without is a gate that
nothing shows to matter.

The specimens are small passes made here: one that is honest, and for each gate at least one that is
bad in just one way. `tests/exploits` has the working cheats; this is the quick check that a judge
which was changed still has its teeth.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginewright.evaluation.audit import AuditReport, check_audit
from enginewright.evaluation.contention import Contention
from enginewright.evaluation.engagement import check_engagement
from enginewright.evaluation.floors import Floor
from enginewright.evaluation.gates import Finding, check_answers, check_physics, check_together
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.load_records import Answer, Request, Wave
from enginewright.evaluation.passes import Engagement, Pass, is_disturbed
from enginewright.evaluation.statistics import decide
from enginewright.evaluation.workload import Workload
from enginewright.target import Numerics, Target

TOKENS = 8
PROMPT = 4


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """One candidate as the judge sees it."""

    name: str
    """What is wrong with it, in a few words."""
    caught_by: str
    """The gate that must catch it; empty for the honest one."""
    seen: Pass
    """A pass of it."""
    report: AuditReport
    """What the reference engine says of its outputs."""
    log_ratios: tuple[float, ...]
    """Its blocks."""
    same_fingerprint: bool = False
    """Whether it has the champion's."""
    memory_mib: float = 100.0
    """Its peak memory."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """The gates in force and their bounds."""

    gates: frozenset[str]
    """Names of the gates that look."""
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    """Bounds of gates and statistics."""
    numerics: Numerics = field(default_factory=Numerics)
    """Bounds on outputs."""
    memory_limit_mib: float = 200.0
    """Most memory accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A judge that was tampered with, and what came of it."""

    name: str
    """What was done to it."""
    slipped: tuple[str, ...]
    """Bad specimens that it promotes and the true judge does not."""


GATES = frozenset(
    {
        "answers", "together", "physics", "engagement", "contention", "fingerprints", "audit",
        "statistics", "guards",
    }
)  # fmt: skip
"""Every gate of a trial."""


def selftest() -> list[Mutation]:
    """Every mutation with what slipped through. One with nothing is a failure of the judge.

    Raises: AssertionError if the true judge does not judge every specimen rightly.
    """
    with tempfile.TemporaryDirectory() as folder:
        engine = _write_engine(Path(folder))
        specimens = _specimens(engine)
        true = Judge(gates=GATES)
        for specimen in specimens:
            found = verdict(true, specimen, engine)
            assert (found is None) == (not specimen.caught_by), (
                f"the true judge says {found!r} of `{specimen.name}`; expected "
                f"{specimen.caught_by or 'a promotion'}"
            )
            assert found is None or found == specimen.caught_by, (
                f"`{specimen.name}` is caught by {found}; expected {specimen.caught_by}"
            )
        bad = [specimen for specimen in specimens if specimen.caught_by]
        return [
            Mutation(
                name=name,
                slipped=tuple(
                    specimen.name for specimen in bad if verdict(judge, specimen, engine) is None
                ),
            )
            for name, judge in _mutations(true).items()
        ]


def verdict(judge: Judge, specimen: Specimen, engine: Path) -> str | None:
    """The gate that catches a specimen, or None if it is promoted."""
    seen, settings = specimen.seen, judge.settings
    findings: dict[str, Callable[[], bool]] = {
        "fingerprints": lambda: not specimen.same_fingerprint,
        "contention": lambda: not is_disturbed(seen, settings),
        "answers": lambda: _passes(check_answers(_target(), _workload(), seen)),
        "together": lambda: _passes(check_together(seen)),
        "physics": lambda: _passes(
            check_physics(_BOUNDS, seen, tolerance=settings.physics_tolerance)
        ),
        "engagement": lambda: _passes(check_engagement(engine, seen.engagement)),
        "audit": lambda: _passes(check_audit(specimen.report, judge.numerics)),
        "statistics": lambda: _is_better(specimen.log_ratios, settings),
        "guards": lambda: specimen.memory_mib <= judge.memory_limit_mib,
    }
    for name, holds in findings.items():
        if name in judge.gates and not holds():
            return name
    return None


def _mutations(true: Judge) -> dict[str, Judge]:
    loose = true.settings
    found = {f"without {name}": replace(true, gates=GATES - {name}) for name in sorted(GATES)}
    found |= {
        "others may use the machine": replace(true, settings=replace(loose, other_share_limit=9.0)),
        "the host may take the machine": replace(
            true, settings=replace(loose, steal_share_limit=9.0)
        ),
        "faster than physics": replace(true, settings=replace(loose, physics_tolerance=1e-9)),
        "any regret": replace(true, numerics=Numerics(regret_nats=99.0, regret_mean_nats=99.0)),
        "any effect": replace(true, settings=replace(loose, smallest_effect=1e-9)),
        "three blocks are enough": replace(
            true,
            settings=replace(loose, looks=replace(loose.looks, blocks=(3,), alphas=(0.2,))),
        ),
        "a leap of nothing": replace(
            true, settings=replace(loose, looks=replace(loose.looks, overwhelming=0.0))
        ),
        "any memory": replace(true, memory_limit_mib=math.inf),
    }
    return found


def _is_better(log_ratios: tuple[float, ...], settings: JudgeSettings) -> bool:
    """As a trial looks: block by block, until it is decided."""
    smallest = math.log1p(settings.smallest_effect)
    for count in range(1, len(log_ratios) + 1):
        decision = decide(log_ratios[:count], settings.looks, smallest_effect=smallest)
        if decision != "go_on":
            return decision == "better"
    return False


def _passes(finding: Finding) -> bool:
    return finding.has_passed


_BOUNDS = {"chat": Floor(first_seconds=0.002, decode_seconds=0.001, output_tokens=TOKENS)}
_CLEAR = tuple(0.05 + 0.002 * (-1) ** block for block in range(14))
_QUIET = Contention(seconds=1.0, other_share=0.01, steal_share=0.0)


def _target() -> Target:
    return Target.model_validate_json(
        json.dumps(
            {
                "name": "selftest",
                "model": {"checkpoint": "x"},
                "workload": {
                    "scenario": [{"name": "chat", "prompt_tokens": PROMPT, "output_tokens": TOKENS}]
                },
                "budget": {"wall_minutes": 1, "trials": 1},
            }
        )
    )


def _workload() -> Workload:
    request = Request(id=0, texts=("a b c d",), output_tokens=TOKENS)
    wave = Wave(scenario="chat", phase="timed", streams=((request,),))
    return Workload(waves=(wave,), prompt_ids={0: ((1, 2, 3, 4),)})


def _answer(**changes: Any) -> Answer:
    times = tuple(1.010 + 0.002 * number for number in range(TOKENS))
    made = Answer(
        id=0, scenario="chat", phase="timed", stream=0, sent=1.0, ended=times[-1] + 0.001,
        chunk_times=times, chunk_tokens=(1,) * TOKENS, counted_by="ids",
        token_ids=tuple(range(TOKENS)), text="", finish_reason="length", prompt_tokens=PROMPT,
        completion_tokens=TOKENS, claimed_tokens=TOKENS, embeddings=None, error_kind=None,
        error=None,
    )  # fmt: skip
    return replace(made, **changes)


def _write_engine(folder: Path) -> Path:
    plan = {
        "pool": {"spin_microseconds": 1, "pin": True},
        "memory": {"huge_pages": False},
        "cache": {"dtype": "f32"},
        "numerics": [],
        "steps": {"decode": {"groups": [{"object": "aa", "kernel": "k"}]}},
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "graph.json").write_text("{}")
    return folder


def _facts(engine: Path, calls: int, **changes: Any) -> dict[str, Any]:
    return {
        "plan": hashlib.sha256((engine / "plan.json").read_bytes()).hexdigest(),
        "graph": hashlib.sha256((engine / "graph.json").read_bytes()).hexdigest(),
        "device": "cpu", "spin_microseconds": 1, "pin": True, "huge_pages": False,
        "cache": {"dtype": "f32"}, "numerics": [], "calls": {"aa": calls},
    } | changes  # fmt: skip


def _specimens(engine: Path) -> list[Specimen]:
    before = _facts(engine, 1)
    engaged = Engagement(before=before, after=_facts(engine, 9))
    honest_pass = Pass(
        arm="candidate", start_seconds=0.1, memory=None, answers=(_answer(),),
        together=(_answer(),), server_cpu_seconds=0.5, contention=_QUIET, stopped=None,
        engagement=engaged,
    )  # fmt: skip
    report = AuditReport(
        outputs=1, tokens=TOKENS, regret_mean_nats=0.0, regret_max_nats=0.0, cosine=None,
        embedding_error=None, scenarios={"chat": 1},
    )  # fmt: skip
    honest = Specimen(
        name="honest", caught_by="", seen=honest_pass, report=report, log_ratios=_CLEAR
    )

    def answers(name: str, **changes: Any) -> Specimen:
        answer = _answer(**changes)
        seen = replace(honest_pass, answers=(answer,), together=(answer,))
        return replace(honest, name=name, caught_by="answers", seen=seen)

    def passes(name: str, gate: str, **changes: Any) -> Specimen:
        return replace(honest, name=name, caught_by=gate, seen=replace(honest_pass, **changes))

    instant = tuple(1.0001 + 0.00001 * number for number in range(TOKENS))
    return [
        honest,
        answers("fewer tokens than asked", completion_tokens=TOKENS - 1),
        answers("ends with `stop`", finish_reason="stop"),
        answers("counts prompt tokens that are not there", prompt_tokens=PROMPT + 3),
        answers("claims more tokens than it sent", claimed_tokens=TOKENS + 100),
        answers("all in one piece", chunk_times=(1.02,), chunk_tokens=(TOKENS,)),
        passes(
            "another answer among others", "together",
            together=(_answer(token_ids=(9,) * TOKENS),),
        ),
        passes(
            "faster than memory", "physics",
            answers=(_answer(chunk_times=instant, ended=1.0003),),
        ),
        passes(
            "the old plan runs", "engagement",
            engagement=Engagement(before=before, after=_facts(engine, 9, plan="0" * 64)),
        ),
        passes(
            "its kernel is never called", "engagement",
            engagement=Engagement(before=before, after=_facts(engine, 1)),
        ),
        passes(
            "timed while others worked", "contention",
            contention=replace(_QUIET, other_share=0.5),
        ),
        passes(
            "timed while the host was busy", "contention",
            contention=replace(_QUIET, steal_share=0.4),
        ),
        replace(honest, name="the champion under another name", caught_by="fingerprints",
                same_fingerprint=True),
        replace(honest, name="wrong tokens", caught_by="audit",
                report=replace(report, regret_max_nats=4.0, regret_mean_nats=2.0)),
        replace(honest, name="outputs that nobody looked at", caught_by="audit",
                report=replace(report, tokens=0, outputs=0, regret_mean_nats=None,
                               regret_max_nats=None)),
        replace(honest, name="no faster", caught_by="statistics",
                log_ratios=tuple(0.01 * (-1) ** block for block in range(14))),
        replace(honest, name="faster by nothing", caught_by="statistics",
                log_ratios=tuple(0.001 + 1e-5 * (-1) ** block for block in range(14))),
        replace(honest, name="lucky for three blocks", caught_by="statistics",
                log_ratios=(0.01, 0.012, 0.011, *(-0.01 for _ in range(11)))),
        replace(honest, name="bought with memory", caught_by="guards", memory_mib=900.0),
    ]  # fmt: skip
