"""A workbench that replays scripted verdicts on a tiny real graph: the loop without a compiler."""

from __future__ import annotations

import json
from pathlib import Path

from enginewright.model import build_graph, read_checkpoint
from enginewright.plan import Allowed, load_library, naive_plan
from enginewright.plan.choices import with_settings
from enginewright.plan.plan import PoolPlan
from enginewright.settings import SOURCE_ROOT, Settings
from enginewright.swarm.loop import Hands
from enginewright.swarm.proposer import Proposal
from enginewright.swarm.workbench import Compared, Confirmed, Delivered, Finding, Subject
from enginewright.target import Machine, load_target

TINY = Path(__file__).parent.parent / "goldens" / "tiny" / "llama_untied_llama3"

LIBRARY = load_library(SOURCE_ROOT / "kernels/cpu")

TARGET = """\
name = "tiny.cpu"
[model]
checkpoint = "{checkpoint}"
[workload]
[[workload.scenario]]
name = "chat"
prompt_tokens = 8
output_tokens = 8
[[accept]]
metric = "decode_tokens_per_s"
comparison = ">="
value = 2.0
against = "naive"
[budget]
wall_minutes = {minutes}
trials = {trials}
"""


class Killed(BaseException):
    """Stands for SIGKILL: no handler of the loop may see it."""


def sentinel_kind(arms):
    """Which sentinel is on trial, by its files; None for a candidate of the search."""
    champion, candidate = (
        json.loads((engine / "plan.json").read_text()) for engine in (arms.champion, arms.candidate)
    )
    groups = [next(iter(plan["steps"].values()))["groups"] for plan in (champion, candidate)]
    if candidate["graph"] != champion["graph"]:
        return "wrong_output"
    if groups[0][0]["id"].startswith("clone"):
        return "known_fast"
    if groups[1][0]["id"].startswith("clone"):
        return "clone"
    # The tiny model's kernels are the plain ones already: its slow plan is the champion's.
    return "known_slow" if candidate == champion else None


def figure(value, unit="ms"):
    return {"value": value, "low": 0.9 * value, "high": 1.1 * value, "unit": unit}


class Replay:
    """The verdicts of `script` in order, each `kept`, `rejected`, `void`, `not_built`, `wrong` or
    `killed`. What was asked of it is in `calls`."""

    def __init__(
        self, script, *, naive="kept", die_at=None, wrong_in_the_end=None, faster_after_all=None
    ):
        self.script = list(script)
        self.naive = naive
        self.die_at = die_at
        self.wrong_in_the_end = wrong_in_the_end
        self.faster_after_all = faster_after_all
        self.calls = []
        self.rules = []
        self.calibration = (0.99, 1.01)
        self.promotes_clones = False

    def _called(self, name, *what):
        self.calls.append((name, *what))
        if self.die_at == name:
            self.die_at = None
            raise Killed(name)

    def naive_plan(self, subject):
        self._called("naive_plan")
        return naive_plan(subject.graph, subject.library, 1)

    def build(self, subject, plan, candidate, engine):
        self._called("build", engine.name)
        if self.script and self.script[0] == "not_built" and not engine.name.endswith("-000"):
            self.script.pop(0)
            return finding("rejected", "rejected: not_built: no such register")
        engine.mkdir(parents=True, exist_ok=True)
        (engine / "plan.json").write_text(plan.to_json())
        return None

    def check_naive(self, subject, engine, say):
        self._called("check_naive")
        return finding(self.naive, "logits within 1.0e-05")

    def check_kernels(self, subject, plan, engine, seconds):
        self._called("check_kernels", engine.name)
        if self.script and self.script[0] == "wrong":
            self.script.pop(0)
            return finding("rejected", "rejected: kernel k is wrong: row 3")
        return None

    def measure_bar(self, subject, naive, work, say):
        self._called("measure_bar")
        return {"naive": {"decode_tokens_per_s": figure(10.0, "tokens/s")}}

    def calibrate(self, subject, arms, blocks, say):
        self._called("calibrate", arms.champion.name)
        low, high = self.calibration
        return {"log_ratios": [0.0] * blocks, "sd": 0.004, "autocorrelation": 0.0, "low": low,
                "high": high, "detectable": 0.004, "disturbed": 0}  # fmt: skip

    def trial(self, subject, arms, rules, say):
        kind = sentinel_kind(arms)
        if kind is not None:
            self._called("sentinel", kind)
            if kind == "known_fast" or (kind == "clone" and self.promotes_clones):
                return finding("kept", "kept: 1.5x", {"value": 1.5, "low": 1.4, "high": 1.6})
            reason = "wrong" if kind == "wrong_output" else "slower"
            return finding("rejected", f"rejected: {reason}: as an honest judge says")
        self._called("trial", arms.champion.name, arms.candidate.name)
        self.rules.append(rules)
        assert arms.champion.exists() and arms.candidate.exists()
        verdict = self.script.pop(0)
        if verdict == "killed":
            raise Killed("trial")
        if verdict == "kept":
            return finding("kept", "kept: 1.5x", {"value": 1.5, "low": 1.4, "high": 1.6})
        return finding(verdict, f"{verdict}: as scripted")

    def confirm(self, subject, arms, blocks, say):
        self._called("confirm", arms.champion.name)
        return Confirmed(
            naive={"decode_tokens_per_s": figure(10.0, "tokens/s")},
            champion={"decode_tokens_per_s": figure(30.0, "tokens/s")},
            baselines={},
            speedup={"value": 3.0, "low": 2.9, "high": 3.1},
            floor_share=figure(0.3, ""),
            acceptance=[
                {"metric": "decode_tokens_per_s", "comparison": ">=", "goal": 2.0,
                 "against": "naive", "value": 3.0, "low": 2.9, "high": 3.1, "holds": True}
            ],
            wrong="regret 3 nats" if self.wrong_in_the_end == arms.champion.name[-3:] else None,
            closeness={},
            blocks=blocks,
            disturbed_blocks=0,
            evidence={},
        )  # fmt: skip

    def compare(self, subject, arms, engines, base, blocks, say):
        self._called("compare", *sorted(name[-3:] for name in engines))
        assert all(path.exists() for path in engines.values())
        faster = self.faster_after_all
        return Compared(
            log_ratios={
                name: [0.1 if name[-3:] == faster else -0.1] * blocks
                for name in engines
                if name != base
            },
            failed={},
            blocks=blocks,
            disturbed_blocks=0,
            evidence={},
        )

    def deliver(self, subject, arms, candidate, out, evidence):
        self._called("deliver", arms.champion.name, len(evidence))
        out.mkdir(parents=True, exist_ok=True)
        for name in ("engine", "manifest.json"):
            (out / name).write_text("{}")
        return Delivered(binary=out / "engine", manifest=out / "manifest.json")

    def ask_once(self, subject, delivered):
        self._called("ask_once")
        return {"request": "What is two plus two?", "answer": "Four."}

    def named(self, name):
        return [call for call in self.calls if call[0] == name]


class Spins:
    """Proposes plans that differ in how long threads spin; skips those the archive has."""

    def __init__(self, run, most=100):
        self.run, self.most, self.learnt = run, most, []

    def propose(self, champion, say):
        number = len(self.run.state.archive.candidates(self.run.state.run))
        if number > self.most:
            return None
        plan = with_settings(
            champion, self.run.subject.graph, self.run.subject.library,
            pool=PoolPlan(spin_microseconds=1000 + number, pin=True),
        )  # fmt: skip
        return Proposal(
            plan=plan, tactic="spin", hypothesis="waiting costs less than waking",
            predicted_effect=1.01,
        )  # fmt: skip

    def learn(self, proposal, finding):
        self.learnt.append(finding.kind)


def finding(kind, headline, speedup=None):
    return Finding(kind=kind, headline=headline, evidence={"said": headline}, speedup=speedup)


def machine():
    return Machine(
        processor="a processor", features=frozenset({"avx2"}), cores=2, last_level_cache_bytes=1,
        read_bandwidth={1: 1e10}, peak_flops={1: 1e11}, kernel="Linux", compiler="rustc",
        read_buffer_bytes=1 << 30,
        probe={},
    )  # fmt: skip


def subject_of(loaded, say, *, host="host"):
    checkpoint = read_checkpoint(loaded.target.model.checkpoint)
    graph = build_graph(checkpoint)
    return Subject(
        target=loaded.target, graph=graph, checkpoint=checkpoint.folder,
        checkpoint_sha256=checkpoint.sha256(), machine=machine(),
        library=LIBRARY,
        allowed=Allowed(features=frozenset(), numerics=frozenset()), threads=1,
        digests={"host": host},
    )  # fmt: skip


class Place:
    """A folder with a target and settings, in which builds run again and again."""

    def __init__(self, folder: Path, *, trials=6, minutes=60):
        self.folder = folder
        self.settings = Settings(
            home=folder / "home", runs=folder / "runs", engine_program=folder / "none",
            sandbox_program=folder / "none", kernels=SOURCE_ROOT / "kernels/cpu",
            cuda_kernels=SOURCE_ROOT / "kernels/cuda", rust=SOURCE_ROOT / "rust",
        )  # fmt: skip
        self.target = folder / "tiny.toml"
        self.target.write_text(TARGET.format(checkpoint=TINY, minutes=minutes, trials=trials))
        self.told = []
        self.remembered = []

    def hands(self, bench, *, make_proposer=lambda run, options: Spins(run), host="host"):
        def write_report(run, result):
            run.folder.report.write_text("<html></html>")
            return run.folder.report

        return Hands(
            inspect=lambda loaded, say: subject_of(loaded, say, host=host),
            bench=bench,
            make_proposer=make_proposer,
            remember=lambda run, result: self.remembered.append(run.state.run),
            write_report=write_report,
        )

    def loaded(self):
        return load_target(self.target)

    def events(self, run):
        lines = (self.settings.runs / run / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]
