"""Builds with coders on a scripted server and scripted verdicts: the loop without a compiler."""

import json

from replay import LIBRARY, Place, Spins

from enginewright.retention import Archive, Store
from enginewright.swarm.agents.assemble import Prepared, assemble, prepare_agents
from enginewright.swarm.agents.grounds import Grounds
from enginewright.swarm.agents.home_kernels import keep_winning_kernels
from enginewright.swarm.device_lock import DeviceLock
from enginewright.swarm.loop import Options, build_engine_for
from enginewright.swarm.run_state import NAIVE, SEARCH, RunState
from enginewright.target import choose_agents
from enginewright.variation.agents.patience import Patience
from enginewright.variation.agents.redaction import Redactor

KEY = "a-secret-key-of-nobody"
KERNEL = """\
//! y = gate / (1 + exp(-gate)) * up; float32.
//!
//! ```toml
//! name = "{name}"
//! pattern = "silu_mul"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```
// {note}
#[macro_use]
#[path = "abi.rs"]
mod abi;
"""
SPIN = {"uses": [], "settings": {"pool": {"spin_microseconds": 5, "pin": False}}}


def kernel(name="silu_rows", note=""):
    return KERNEL.format(name=name, note=note)


def use(kernel, op="L0.silu_mul", step="decode"):
    return {"uses": [{"step": step, "ops": [op], "kernel": kernel}], "settings": {}}


def writes(path, content):
    held = content if isinstance(content, str) else json.dumps(content)
    return ("write_file", {"path": path, "content": held})


def submits(why="it is faster", effect=1.2):
    return ("submit", {"hypothesis": why, "predicted_effect": effect})


class CoderPlace(Place):
    """A place whose target has a coder on `server`."""

    def __init__(self, folder, server, *, limits="", prices="", trials=6, more=""):
        super().__init__(folder, trials=trials)
        self.target.write_text(
            self.target.read_text()
            + '[[agent]]\nkind = "coder"\nmodel = "m"\nkey_env = "CODER_KEY"\n'
            + f'base_url = "{server.url}"\n[agent.limits]\n{limits}\n'
            + (f"[agent.prices]\n{prices}\n" if prices else "")
            + more
        )
        self.warm_kept = []

    def build(self, bench, *, agents="coder", tuner=Spins, attempts=3, **hands):
        loaded = self.loaded()
        taking_part = choose_agents(loaded.target, agents)
        prepared = prepare_agents(taking_part, self.settings, target=loaded.target.name)

        def make(run, options):
            return assemble(
                run, options.agents, tuner(run), self.grounds(run, prepared), prepared,
                patience=Patience(attempts=attempts, first_seconds=0.01),
            )  # fmt: skip

        made = self.hands(bench, make_proposer=make, **hands)

        def remember(run, result):
            self.warm_kept = keep_winning_kernels(run, result, self.settings.home)

        object.__setattr__(made, "remember", remember)
        return build_engine_for(
            loaded, self.settings, made, options=Options(agents=taking_part),
            listener=self.told.append,
        )  # fmt: skip

    def grounds(self, run, prepared=Prepared()):  # noqa: B008
        return Grounds(
            subject=run.subject, state=run.state, folder=run.folder, bench=run.bench,
            shelf=run.shelf, time_step=lambda engine, step, shape: 0.001,
            profile_step=lambda engine, step, shape: None, memory=None,
            device=DeviceLock(self.settings.home / "device.lock"),
            redactor=Redactor(prepared.secrets), guide="How kernels are written.\n",
        )  # fmt: skip

    @property
    def archive(self):
        return Archive(self.settings.home / "archive.sqlite")

    def state(self, run):
        return RunState(self.archive, Store(self.settings.home / "store"), run)

    def told_kinds(self, run, kind):
        return [event.details for event in self.archive.events(run) if event.kind == kind]

    def endings(self, run):
        return [held["ended"] for held in self.told_kinds(run, "conversation")]

    def searched(self, run):
        """The naive candidate and those of the search: not the sentinels, not the shortlist's."""
        state = self.state(run)
        trials = [trial for stage in (NAIVE, SEARCH) for trial in state.trials(stage)]
        return [state.candidate(trial.candidate) for trial in trials]

    def lineage(self, run):
        """What was proposed by whom from what, and how it ended, without the run's own names."""
        state = self.state(run)
        numbers = {held.id: at for at, held in enumerate(self.archive.candidates(run))}
        verdicts = {trial.candidate: trial.verdict for trial in state.trials(SEARCH)}
        return [
            (held.plan_sha256, held.tactic, held.hypothesis, held.predicted_effect,
             numbers.get(held.parent), verdicts.get(held.id))
            for held in self.archive.candidates(run)
        ]  # fmt: skip


__all__ = ["KEY", "LIBRARY", "SPIN", "CoderPlace", "kernel", "submits", "use", "writes"]
