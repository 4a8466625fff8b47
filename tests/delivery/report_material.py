"""A run's material with every part filled, for the report's tests."""

from __future__ import annotations

from enginewright.delivery.report import (
    Acceptance,
    CandidateEntry,
    EngineFigures,
    Estimate,
    GroupTime,
    JudgeTest,
    ReportMaterial,
    SameAgainstSame,
    SelectionGap,
    SentinelEntry,
    TacticSummary,
    TrialEntry,
)


def estimate(value, unit="", spread=0.03):
    return Estimate(value=value, low=value * (1 - spread), high=value * (1 + spread), unit=unit)


REASONS = {"kept": "kept: faster", "rejected": "slower", "void": "machine busy"}


def candidates_and_trials():
    tactics = ["big_step", "tile", "unroll", "fuse <norms>", "prefetch", "layout", "spin"]
    candidates = [
        CandidateEntry(
            candidate="c0", parent=None, tactic="naive", hypothesis="", predicted_effect=1.0
        )
    ]
    trials = [
        TrialEntry(
            trial="t0",
            candidate="c0",
            stage="naive",
            verdict="kept",
            reason="agrees with the goldens",
            evidence="0" * 64,
            effect=None,
        )
    ]
    champion = "c0"
    for number in range(1, 29):
        name, tactic = f"c{number}", tactics[(number - 1) % len(tactics)]
        candidates.append(
            CandidateEntry(
                candidate=name,
                parent=champion,
                tactic=tactic,
                hypothesis=f"{tactic}: fewer passes over memory",
                predicted_effect=1.1,
            )
        )
        if number % 9 == 5:
            continue
        verdict = (
            "void" if number % 7 == 3 else "kept" if number in (1, 2, 6, 13, 20) else "rejected"
        )
        value = {"kept": 1.09, "rejected": 0.99, "void": 1.0}[verdict] * (8.0 if number == 1 else 1)
        trials.append(
            TrialEntry(
                trial=f"t{number}",
                candidate=name,
                stage="search",
                verdict=verdict,
                reason={"kept": "kept: faster", "rejected": "slower", "void": "machine busy"}[
                    verdict
                ],
                evidence=f"{number:064x}",
                effect=None if verdict == "void" else estimate(value, "x"),
            )
        )
        champion = name if verdict == "kept" else champion
    return tuple(candidates), tuple(trials), champion


def full_material():
    """Everything that a finished run tells. The figures are made up."""
    candidates, trials, champion = candidates_and_trials()
    naive = {
        "chat.ttft_ms": estimate(812.0, "ms"),
        "chat.decode_tokens_per_s": estimate(11.3, "tokens/s"),
        "decode_tokens_per_s": estimate(11.3, "tokens/s"),
        "peak_memory_mib": estimate(167.0, "MiB"),
    }
    best = {
        "chat.ttft_ms": estimate(61.0, "ms"),
        "chat.decode_tokens_per_s": estimate(131.0, "tokens/s"),
        "decode_tokens_per_s": estimate(131.0, "tokens/s"),
        "peak_memory_mib": estimate(158.0, "MiB"),
        "floor_share": estimate(0.71),
    }
    groups = [
        ("decode, 1 row, 64 tokens of context", "rms_norm linear linear linear", 30, 5.1e5, 3.9e5),
        ("decode, 1 row, 64 tokens of context", "rope kv_write attention", 30, 1.2e5, None),
        ("decode, 1 row, 64 tokens of context", "rms_norm linear", 1, 9.0e5, 8.0e5),
        ("prefill, 512 rows, 512 tokens of context", "linear", 30, 5.0e8, 3.0e8),
    ]
    return ReportMaterial(
        run="r0123456789",
        target="smollm2-135m.cpu",
        state="finished",
        started="2026-01-02 03:04 UTC",
        objective="request_ms",
        speedup=estimate(11.6, "x"),
        floor_share=estimate(0.71),
        acceptance=(
            Acceptance(
                metric="decode_tokens_per_s",
                comparison=">=",
                goal=2.0,
                value=11.6,
                low=11.4,
                high=11.8,
                holds=True,
                against="naive",
            ),
            Acceptance(
                metric="chat.ttft_ms",
                comparison="<=",
                goal=60.0,
                value=61.0,
                low=59.0,
                high=63.0,
                holds=False,
            ),
        ),
        engines=(
            EngineFigures(name="naive", metrics=naive),
            EngineFigures(name="champion", metrics=best),
            EngineFigures(
                name="llama.cpp", metrics={"decode_tokens_per_s": estimate(52.0, "tokens/s")}
            ),
        ),
        champion=champion,
        candidates=candidates,
        trials=trials,
        groups=tuple(
            GroupTime(
                step=step,
                group=f"g{number}",
                kernel="some_kernel",
                ops=ops,
                calls=calls,
                measured_ns=measured,
                floor_ns=floor,
            )
            for number, (step, ops, calls, measured, floor) in enumerate(groups)
        ),
        tactics=(
            TacticSummary(
                tactic="big_step", proposed=4, screened_out=0, tried=4, kept=1, gain=8.72
            ),
            TacticSummary(tactic="tile", proposed=9, screened_out=5, tried=4, kept=1, gain=1.09),
            TacticSummary(tactic="spin", proposed=3, screened_out=2, tried=1, kept=0, gain=1.0),
        ),
        judge=JudgeTest(
            same=SameAgainstSame(
                ratio=(0.9912, 1.0123),
                blocks=8,
                sd=0.0123,
                autocorrelation=-0.08,
                detectable=0.0098,
                holds_one=True,
            ),
            sentinels=(
                SentinelEntry(
                    kind="wrong_output",
                    expected="rejected: wrong",
                    verdict="rejected: wrong: regret 3",
                    as_expected=True,
                ),
                SentinelEntry(
                    kind="clone", expected="not kept", verdict="kept: 1.02x", as_expected=False
                ),
                SentinelEntry(
                    kind="known_slow",
                    expected="rejected: slower",
                    verdict="void: contended",
                    as_expected=None,
                ),
            ),
            false_promotion="1 of 12 clones in this archive (95 %: 0 to 38 %)",
            gaps=(
                SelectionGap(
                    name="tile", selected=estimate(1.09, "x"), confirmed=estimate(1.04, "x")
                ),
                SelectionGap(
                    name="whole search",
                    selected=Estimate(value=12.3, low=None, high=None, unit="x"),
                    confirmed=estimate(11.6, "x"),
                ),
            ),
        ),
        environment=(("processor", "Some Processor"), ("cores", "2")),
        inputs=(("target, SHA-256", "ab" * 32), ("seed", "17")),
        recheck=("enginewright log r0123456789",),
    )
