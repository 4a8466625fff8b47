"""What the judge is put to the test with: small passes made here, one that is honest, and others
that are bad in just one way each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginewright.evaluation.audit import AuditReport
from enginewright.evaluation.change_class import ChangeClass
from enginewright.evaluation.closeness import LengthReport
from enginewright.evaluation.contention import Contention
from enginewright.evaluation.floors import Floor
from enginewright.evaluation.load_records import Answer, Request, Wave
from enginewright.evaluation.passes import Engagement, Pass
from enginewright.evaluation.workload import Workload
from enginewright.target import Target

TOKENS = 8
PROMPT = 4
_NEAR = LengthReport(
    positions=48, kl_nats=1e-11, kl_high_nats=2e-11, top1_agreement=1.0, cosine=None
)


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
    claim: ChangeClass = "reassociated"
    """What it claims of its arithmetic."""
    is_same: bool | None = None
    """Whether it answers the champion's bytes; None unless it claims to."""
    lengths: Mapping[int, LengthReport] = field(default_factory=lambda: {64: _NEAR})
    """How near its distributions are, by tokens of context."""
    harness: tuple[str, str] = ("a", "a")
    """Digest of the judge's files before and after."""


FLOORS = {"chat": Floor(first_seconds=0.002, decode_seconds=0.001, output_tokens=TOKENS)}
_CLEAR = tuple(0.05 + 0.002 * (-1) ** block for block in range(14))
_QUIET = Contention(seconds=1.0, other_share=0.01, steal_share=0.0)


def target() -> Target:
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


def workload() -> Workload:
    request = Request(id=0, texts=("a b c d",), output_tokens=TOKENS)
    wave = Wave(scenario="chat", phase="timed", streams=((request,),))
    return Workload(waves=(wave,), prompt_ids={0: ((1, 2, 3, 4),)})


def decode(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def _answer(**changes: Any) -> Answer:
    times = tuple(1.010 + 0.002 * number for number in range(TOKENS))
    made = Answer(
        id=0, scenario="chat", phase="timed", stream=0, sent=1.0, ended=times[-1] + 0.001,
        chunk_times=times, chunk_tokens=(1,) * TOKENS, counted_by="ids",
        token_ids=tuple(range(TOKENS)), text=decode(range(TOKENS)), finish_reason="length",
        prompt_tokens=PROMPT,
        completion_tokens=TOKENS, claimed_tokens=TOKENS, embeddings=None, error_kind=None,
        error=None,
    )  # fmt: skip
    return replace(made, **changes)


def write_engine(folder: Path) -> Path:
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
        "cache": {"dtype": "f32"}, "numerics": [], "prefix_cache": False,
        "calls": {"aa": calls},
    } | changes  # fmt: skip


def specimens_of(engine: Path) -> list[Specimen]:
    before = _facts(engine, 1)
    engaged = Engagement(before=before, after=_facts(engine, 9))
    honest_pass = Pass(
        arm="candidate", start_seconds=0.1, memory=None, answers=(_answer(),),
        together=(_answer(),), server_cpu_seconds=0.5, contention=_QUIET, load_share=0.02,
        stopped=None, engagement=engaged,
    )  # fmt: skip
    report = AuditReport(
        outputs=1, tokens=TOKENS, regret_mean_nats=0.0, regret_max_nats=0.0, cosine=None,
        embedding_error=None, scenarios={"chat": 1},
    )  # fmt: skip
    honest = Specimen(
        name="honest", caught_by="", seen=honest_pass, report=report, log_ratios=_CLEAR
    )

    def answers_of(name: str, gate: str, **changes: Any) -> Specimen:
        answer = _answer(**changes)
        seen = replace(honest_pass, answers=(answer,), together=(answer,))
        return replace(honest, name=name, caught_by=gate, seen=seen)

    def answers(name: str, **changes: Any) -> Specimen:
        return answers_of(name, "answers", **changes)

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
        replace(honest, name="drifting upwards", caught_by="statistics",
                log_ratios=(0.004, 0.004, 0.03, 0.03, 0.06, 0.06)),
        answers_of("texts that are not the tokens'", "texts", text="a better answer"),
        passes("timed by a busy load generator", "client", load_share=0.9),
        replace(honest, name="another distribution", caught_by="closeness",
                lengths={64: _NEAR, 256: replace(_NEAR, kl_nats=0.1, kl_high_nats=0.2)}),
        replace(honest, name="another token on top", caught_by="closeness",
                lengths={64: replace(_NEAR, top1_agreement=0.9)}),
        replace(honest, name="bit-exact in name only", caught_by="closeness",
                claim="bit_exact", is_same=False),
        replace(honest, name="no distribution compared", caught_by="closeness", lengths={}),
        replace(honest, name="judged while the judge was edited", caught_by="harness",
                harness=("a", "b")),
        replace(honest, name="bought with memory", caught_by="guards", memory_mib=900.0),
    ]  # fmt: skip
