"""What a run was measured on, what went into it, and how to check it again: names and values."""

from __future__ import annotations

from typing import Any

from enginewright.delivery.report.material import TrialEntry
from enginewright.retention import Event, RunRecord

Facts = tuple[tuple[str, str], ...]
_VECTOR_FEATURES = ("sse4", "avx", "fma", "f16c", "amx", "asimd", "sve", "neon")


def machine_facts(machine: Any) -> Facts:
    """The machine and its measured rates; empty if there is no record of it."""
    if not isinstance(machine, dict):
        return ()
    facts = []
    for name, value in machine.items():
        if name == "features":
            # The rest says nothing about speed.
            value = [feature for feature in value if feature.startswith(_VECTOR_FEATURES)]
        facts.append((name.removesuffix("_bytes").replace("_", " "), _fact(name, value)))
    return tuple((name, value) for name, value in facts if value)


def _fact(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_key(name, key)}: {_fact(name, held)}" for key, held in value.items())
    if isinstance(value, list):
        return " ".join(_fact(name, held) for held in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "bandwidth" in name:
            return f"{value / 1e9:.1f} GB/s"
        if "flops" in name:
            return f"{value / 1e9:,.0f} GFLOP/s"
        if "bytes" in name:
            return f"{value / 2**20:,.0f} MiB"
        if "seconds" in name:
            return f"{value:,.1f} s"
    return str(value)


def _key(name: str, key: str) -> str:
    if name in ("read_bandwidth", "peak_flops"):
        return f"{key} thread" + ("s" if key != "1" else "")
    return key


def input_facts(run: RunRecord, result: dict[str, Any], events: list[Event]) -> Facts:
    """Target, scenarios, budget, digests, and where the time went."""
    facts = [("digest of the target", run.target_sha256)]
    model = run.target.get("model", {})
    if model.get("checkpoint"):
        facts.append(("checkpoint", str(model["checkpoint"])))
    if model.get("sha256"):
        facts.append(("checkpoint, SHA-256", str(model["sha256"])))
    for scenario in run.target.get("workload", {}).get("scenario", ()):
        facts.append((f"scenario {scenario['name']}", _scenario_words(scenario)))
    numerics = run.target.get("numerics", {})
    if numerics:
        allowed = ", ".join(numerics.get("allow", ())) or "none"
        facts.append(("approximations allowed", allowed))
    budget = run.target.get("budget", {})
    if budget:
        facts.append(
            ("budget", f"{budget.get('wall_minutes')} minutes, {budget.get('trials')} trials")
        )
    for name in ("seed", "seeds", "stopped_because", "binary", "manifest"):
        if result.get(name) is not None:
            facts.append((name.replace("_", " "), _fact(name, result[name])))
    timings = result.get("timings", {})
    if timings.get("stages"):
        facts.append(("wall time", _fact("wall_seconds", timings["wall_seconds"])))
        facts.append(("of it", _fact("seconds", timings["stages"])))
    if timings.get("own_share") is not None:
        facts.append(("the loop's own share", f"{timings['own_share']:.1%}"))
    for event in events:
        if event.kind == "started":
            digests = event.details.get("digests", {})
            facts += [
                (f"digest of the {name}", str(held))
                for name, held in digests.items()
                if name != "target"
            ]
    return tuple(facts)


def _scenario_words(scenario: dict[str, Any]) -> str:
    words = [f"{scenario['prompt_tokens']} tokens in"]
    if scenario.get("output_tokens", 0) > 0:
        words.append(f"{scenario['output_tokens']} out")
    if scenario.get("streams", 1) > 1:
        words.append(f"{scenario['streams']} streams at once")
    if scenario.get("batch", 1) > 1:
        words.append(f"{scenario['batch']} texts a request")
    if scenario.get("requests", 1) > 1:
        words.append(f"{scenario['requests']} requests a block")
    return ", ".join(words)


def recheck_commands(
    run: RunRecord, trials: tuple[TrialEntry, ...], result: dict[str, Any]
) -> tuple[str, ...]:
    """Commands that show or repeat what the page tells."""
    lines = [f"enginewright log {run.id}"]
    kept = [trial.trial for trial in trials if trial.verdict == "kept"]
    if kept:
        lines.append(f"enginewright show {kept[-1]}")
    if result.get("champion"):
        lines.append(f"enginewright bench {run.id}")
    if result.get("binary"):
        lines.append(f"enginewright ship {run.id} --out DIR")
    return tuple(lines)
