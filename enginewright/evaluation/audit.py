"""Outputs of timed requests held against the reference engine, within a budget of positions.

Which requests are checked is decided after they were timed: nothing tells an engine which. Those
come first whose outputs differ from the champion's; the others by lot.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from enginewright.evaluation.gates import Finding, passed
from enginewright.evaluation.load_records import Answer
from enginewright.evaluation.oracle import Oracle
from enginewright.target import Numerics


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Something emitted that the reference engine can judge: tokens, or one embedding."""

    scenario: str
    """Whose request it was."""
    text: str
    """The prompt, or the text embedded."""
    prompt_ids: tuple[int, ...]
    """Its token ids."""
    token_ids: tuple[int, ...]
    """Tokens emitted; empty for an embedding."""
    embedding: tuple[float, ...] | None
    """The embedding; None for tokens."""
    differs: bool
    """Whether the champion emitted something else for the same prompt."""

    @property
    def positions(self) -> int:
        """What checking it costs."""
        return len(self.prompt_ids) + len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What the reference engine says of some outputs. Figures are None where nothing has them."""

    outputs: int
    """Outputs checked."""
    tokens: int
    """Tokens among them."""
    regret_mean_nats: float | None
    """Mean over the tokens."""
    regret_max_nats: float | None
    """Largest."""
    cosine: float | None
    """Least over the embeddings."""
    embedding_error: float | None
    """Largest absolute difference of an element."""
    scenarios: dict[str, int]
    """Outputs checked of each scenario."""

    def metrics(self) -> dict[str, float]:
        """Those that criteria can name."""
        held = {
            "regret_nats": self.regret_max_nats,
            "regret_mean_nats": self.regret_mean_nats,
            "cosine": self.cosine,
        }
        return {name: value for name, value in held.items() if value is not None}


def outputs_of(
    answers: Sequence[Answer],
    texts: Mapping[int, Sequence[str]],
    prompt_ids: Mapping[int, Sequence[tuple[int, ...]]],
    *,
    champion: Sequence[Answer] = (),
) -> list[Output]:
    """All outputs of answers; `champion` are the answers of the other arm to the same requests."""
    others = {answer.id: answer for answer in champion}
    outputs = []
    for answer in answers:
        other = others.get(answer.id)
        for number, ids in enumerate(prompt_ids[answer.id]):
            embedding = answer.embeddings[number] if answer.embeddings else None
            differs = other is not None and (
                other.token_ids != answer.token_ids
                if embedding is None
                else other.embeddings is None or other.embeddings[number] != embedding
            )
            outputs.append(
                Output(
                    scenario=answer.scenario,
                    text=texts[answer.id][number],
                    prompt_ids=ids,
                    token_ids=answer.token_ids or (),
                    embedding=embedding,
                    differs=differs,
                )
            )
    return outputs


def choose(outputs: Sequence[Output], budget: int, lot: random.Random) -> list[Output]:
    """One output of each scenario, then as many more as the budget of positions holds."""
    order = list(outputs)
    lot.shuffle(order)
    order.sort(key=lambda output: not output.differs)
    chosen: list[Output] = []
    seen: set[str] = set()
    for output in order:
        if output.scenario not in seen:
            seen.add(output.scenario)
            chosen.append(output)
    left = budget - sum(output.positions for output in chosen)
    taken = {id(output) for output in chosen}
    for output in order:
        if id(output) not in taken and output.positions <= left:
            left -= output.positions
            chosen.append(output)
    return chosen


def audit(outputs: Sequence[Output], oracle: Oracle) -> AuditReport:
    """Let the reference engine judge outputs.

    Raises: EngineError if the reference engine fails.
    """
    regrets: list[float] = []
    cosines: list[float] = []
    errors: list[float] = []
    scenarios: dict[str, int] = {}
    for output in outputs:
        scenarios[output.scenario] = scenarios.get(output.scenario, 0) + 1
        if output.embedding is None:
            regrets += oracle.regrets(output.prompt_ids, output.token_ids)
            continue
        wanted = oracle.embeddings([output.text])[0].astype(np.float64)
        given = np.asarray(output.embedding, dtype=np.float64)
        if given.shape != wanted.shape:
            cosines.append(-1.0)
            continue
        scale = float(np.linalg.norm(wanted) * np.linalg.norm(given))
        cosines.append(float(wanted @ given) / scale if scale > 0 else -1.0)
        errors.append(float(np.abs(wanted - given).max()))
    return AuditReport(
        outputs=len(outputs),
        tokens=len(regrets),
        regret_mean_nats=float(np.mean(regrets)) if regrets else None,
        regret_max_nats=float(np.max(regrets)) if regrets else None,
        cosine=float(np.min(cosines)) if cosines else None,
        embedding_error=float(np.max(errors)) if errors else None,
        scenarios=scenarios,
    )


def check_audit(report: AuditReport, numerics: Numerics) -> Finding:
    """Whether the outputs lie within the target's bounds."""
    limits: list[tuple[str, float | None, float, bool]] = [
        ("regret of a token", report.regret_max_nats, numerics.regret_nats, False),
        ("mean regret", report.regret_mean_nats, numerics.regret_mean_nats, False),
        ("cosine", report.cosine, numerics.cosine, True),
        ("error of an embedding", report.embedding_error, numerics.embedding_error, False),
    ]
    for what, value, limit, at_least in limits:
        if value is None:
            continue
        # Written so that NaN is beyond every bound.
        if not (value >= limit if at_least else value <= limit):
            side = "least" if at_least else "most"
            return Finding(
                gate="audit",
                checked=report.outputs,
                rejected="wrong",
                void=None,
                detail=f"{what} is {value:.6g}; at {side} {limit:g} is allowed "
                f"({report.outputs} outputs, {report.tokens} tokens checked)",
            )
    return passed("audit", report.tokens or (report.outputs if report.cosine is not None else 0))


def report_json(report: AuditReport) -> dict[str, Any]:
    """For the evidence."""
    return {name: getattr(report, name) for name in AuditReport.__slots__}
