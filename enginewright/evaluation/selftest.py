"""The judge put to the test: each of its gates is taken out, each bound loosened, and something bad
must then pass that passed nowhere before. A gate that nothing slips through without is a gate that
nothing shows to matter.

`tests/evaluation/exploits` has the working cheats; this is the quick check that a judge which was
changed still has its teeth.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from enginewright.evaluation.audit import check_audit
from enginewright.evaluation.change_class import BOUNDS, ChangeClass, Closeness
from enginewright.evaluation.closeness import check_closeness
from enginewright.evaluation.engagement import check_engagement
from enginewright.evaluation.gates import (
    Finding,
    check_answers,
    check_client,
    check_physics,
    check_texts,
    check_together,
)
from enginewright.evaluation.judge_settings import JudgeSettings
from enginewright.evaluation.passes import is_disturbed
from enginewright.evaluation.selftest_specimens import (
    FLOORS,
    Specimen,
    decode,
    specimens_of,
    target,
    workload,
    write_engine,
)
from enginewright.evaluation.statistics import decide
from enginewright.target import Numerics


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
    closeness: Mapping[ChangeClass, Closeness] = field(default_factory=lambda: BOUNDS)
    """Bounds on distributions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A judge that was tampered with, and what came of it."""

    name: str
    """What was done to it."""
    slipped: tuple[str, ...]
    """Bad specimens that it promotes and the true judge does not."""


GATES = frozenset(
    {
        "answers", "texts", "together", "client", "physics", "engagement", "contention",
        "fingerprints", "audit", "statistics", "guards", "closeness", "harness",
    }
)  # fmt: skip
"""Every gate of a trial."""


def selftest() -> list[Mutation]:
    """Every mutation with what slipped through. One with nothing is a failure of the judge.

    Raises: AssertionError if the true judge does not judge every specimen rightly.
    """
    with tempfile.TemporaryDirectory() as folder:
        engine = write_engine(Path(folder))
        specimens = specimens_of(engine)
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
        "answers": lambda: _passes(check_answers(target(), workload(), seen)),
        "together": lambda: _passes(check_together(seen)),
        "physics": lambda: _passes(
            check_physics(FLOORS, seen, tolerance=settings.physics_tolerance)
        ),
        "engagement": lambda: _passes(check_engagement(engine, seen.engagement)),
        "audit": lambda: _passes(check_audit(specimen.report, judge.numerics)),
        "statistics": lambda: _is_better(specimen.log_ratios, settings),
        "guards": lambda: specimen.memory_mib <= judge.memory_limit_mib,
        "closeness": lambda: _passes(
            check_closeness(
                specimen.claim,
                "reassociated",
                specimen.lengths,
                judge.numerics,
                is_same=specimen.is_same,
                all_bounds=judge.closeness,
            )
        ),
        "texts": lambda: _passes(check_texts(decode, seen)),
        "client": lambda: _passes(check_client(seen, limit=settings.load_share_limit)),
        "harness": lambda: specimen.harness[0] == specimen.harness[1],
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
            settings=replace(
                loose,
                looks=replace(loose.looks, blocks=(3,), alphas=(0.2,), batch_blocks=1),
            ),
        ),
        "neighbours bear each other out": replace(
            true, settings=replace(loose, looks=replace(loose.looks, batch_blocks=1))
        ),
        "a leap of nothing": replace(
            true, settings=replace(loose, looks=replace(loose.looks, overwhelming=0.0))
        ),
        "any memory": replace(true, memory_limit_mib=math.inf),
        "a busy load generator": replace(true, settings=replace(loose, load_share_limit=9.0)),
        "any distance": replace(
            true,
            closeness={
                name: Closeness(kl_nats=9.0, top1_agreement=bound.top1_agreement)
                for name, bound in BOUNDS.items()
            },
        ),
        "any token on top": replace(
            true,
            closeness={
                name: Closeness(kl_nats=bound.kl_nats, top1_agreement=0.0)
                for name, bound in BOUNDS.items()
            },
        ),
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
