"""Coders on a scripted server in the loop: what each kind of coder comes to."""

import json
import sqlite3
import time

import pytest
from coder_place import KEY, SPIN, CoderPlace, kernel, submits, use, writes
from replay import Killed, Replay
from scripted_server import breaks_off, call, fails, falls_silent, refuses, says, uses

from enginewright.errors import TargetError, UsageError


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("CODER_KEY", KEY)


@pytest.fixture
def make(tmp_path, server):
    return lambda **how: CoderPlace(tmp_path, server, **how)


def lands(name="silu_rows", note="", op="L0.silu_mul", *, checks=True):
    """Answers of a coder that writes a kernel and hands it in, checked by itself or not."""
    return [
        uses(("read_plan", {}), ("read_lessons", {})),
        uses(
            writes(f"kernels/{name}.rs", kernel(name, note)), writes("change.json", use(name, op))
        ),
        uses(*[("check", {})] * checks, ("time", {})),
        uses(submits(f"rows in a row: {note or name}")),
    ]


def gives_up():
    return uses(("give_up", {"reason": "nothing would be faster"}))


def test_a_kernel_that_is_handed_in_is_an_ordinary_candidate(make, server):
    place = make()
    server.plays(*lands(), gives_up())
    result = place.build(Replay(["kept"]))
    run = result["run"]
    assert result["trials"] == {"kept": 1, "rejected": 0, "void": 0}
    assert result["champion_candidate"] == f"{run}-001"
    _, candidate = place.searched(run)
    assert candidate.tactic == "coder:coder" and candidate.predicted_effect == 1.2
    plan = place.state(run).plan(candidate)
    kernels = {group.kernel for group in plan.steps["decode"].groups}
    (sealed,) = [name for name in kernels if name.startswith("silu_rows_")]
    assert place.warm_kept == [sealed]
    (told,) = result["agents"]
    assert (told["name"], told["kept"], told["submissions"]) == ("coder", 1, 1)
    assert told["conversations"]["handed_in"] == 4, "three rounds in a row bore nothing"
    assert told["tokens"]["input"] == 100 * len(server.requests)


def test_a_kernel_that_won_is_offered_to_later_runs_with_its_evidence(make, server):
    place = make()
    server.plays(*lands(), gives_up())
    place.build(Replay(["kept"]))
    (sealed,) = place.warm_kept
    home = place.settings.home / "kernels/cpu" / sealed
    evidence = json.loads((home / "evidence.json").read_text())
    assert evidence["agent"] == "coder:coder" and evidence["trial"] and evidence["confirmation"]
    server.plays(gives_up())
    offered = []

    class Looks(Replay):
        def measure_bar(self, subject, naive, work, say):
            offered.append(sealed in subject.library)
            return super().measure_bar(subject, naive, work, say)

    place.build(Looks([]))
    assert offered == [True]
    # Evidence is of these very bytes.
    (home / f"{sealed}.rs").write_text(kernel(sealed, "tampered"))
    second = place.build(Looks([]))
    assert offered == [True, False]
    (told,) = place.told_kinds(second["run"], "adopted")
    assert "changed since" in told["passed_over"][sealed]


def test_a_wrong_kernel_costs_its_trial_and_the_search_goes_on(make, server):
    place = make()
    server.plays(*lands(checks=False), *lands("silu_again"), gives_up())
    result = place.build(Replay(["wrong", "kept"]))
    assert result["trials"] == {"kept": 1, "rejected": 1, "void": 0}
    said = server.results(5)[-1]
    assert "kernel k is wrong" in said, "the next conversation reads why"


def test_a_cheat_reaches_nothing_but_its_own_files(make, server, tmp_path):
    place = make()
    outside = tmp_path / "outside.rs"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.toml")}
    paths = ["../../outside.rs", str(outside), "kernels/../../../outside.rs", "kernels/abi.rs",
             "plan.json", "enginewright/evaluation/gates.py", "../../result.json"]  # fmt: skip
    server.plays(
        uses(*[writes(path, "//") for path in paths]),
        uses(("read_file", {"path": "/etc/passwd"}), ("run_shell", {"command": "id"})),
        uses(
            ("edit_file", {"path": "kernels/abi.rs", "edits": [{"search": "u32", "replace": ""}]})
        ),
        uses(("read_file", {"path": "../lock"}), ("submit", {"hypothesis": "x"})),
    )
    result = place.build(Replay([]))
    assert sum(result["trials"].values()) == 0
    assert set(place.endings(result["run"])) == {"useless"}
    results = [text for number in range(4) for text in server.results(number)]
    assert results and all(text.startswith("error: ") for text in results)
    assert not outside.exists()
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_kernel_may_not_include_what_is_not_its_own(make, server, tmp_path):
    place = make()
    (tmp_path / "secret.rs").write_text("a secret")
    reaching = kernel().replace('"abi.rs"', f'"{tmp_path}/secret.rs"')
    server.plays(
        uses(writes("kernels/silu_rows.rs", reaching), writes("change.json", use("silu_rows"))),
        uses(("build", {}), submits()),
        gives_up(),
    )
    result = place.build(Replay([]))
    assert sum(result["trials"].values()) == 0
    assert all("outside its folder" in text for text in server.results(2)[-2:])


def test_garbage_ends_the_conversation(make, server):
    place = make()
    server.plays(
        says("I would rather talk."),
        says("", call("write_file", '{"path": "kernels/x.rs", "content"')),
        says("", call("frobnicate", {})),
        says("", call("read_file", {"path": 7})),
    )
    result = place.build(Replay([]))
    assert place.endings(result["run"])[0] == "useless"
    told = list(server.results(3))
    assert "not JSON" in told[0] and "there is no tool 'frobnicate'" in told[1]
    assert server.requests[1]["messages"][-1]["content"].startswith("Use a tool")


def test_endless_tool_calls_end_at_the_limit_of_turns(make, server):
    place = make(limits="turns = 5")
    server.plays(uses(*[("list_files", {})] * 20))
    result = place.build(Replay([]))
    assert place.endings(result["run"]) == ["turns"] * 3
    assert len(server.requests) == 15
    last = server.results(4)
    assert last.count("error: at most 16 tools an answer") == 4 * 4


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(make, server):
    place = make()
    server.plays(fails(429, retry_after="1"), *lands(), gives_up())
    start = time.monotonic()
    result = place.build(Replay(["kept"]))
    assert result["trials"]["kept"] == 1 and time.monotonic() - start > 1.0
    first = place.told_kinds(result["run"], "exchange")[0]
    assert (first["failure"], first["input_tokens"]) == ("rate_limited", 0)


@pytest.mark.parametrize("step", [breaks_off("Half an answ"), fails(500)])
def test_a_broken_answer_is_asked_for_again_and_paid_for(make, server, step):
    place = make()
    server.plays(step, *lands(), gives_up())
    result = place.build(Replay(["kept"]))
    assert result["trials"]["kept"] == 1
    first, second = place.told_kinds(result["run"], "exchange")[:2]
    assert (first["conversation"], first["turn"]) == (second["conversation"], second["turn"])
    assert (first["input_tokens"] > 0) == (first["failure"] == "broken_stream")


def test_a_half_closed_stream_does_not_hold_the_run(make, server):
    place = make(limits="request_seconds = 0.5")
    server.plays(falls_silent("Half", 3.0), *lands(), gives_up())
    result = place.build(Replay(["kept"]))
    assert result["trials"]["kept"] == 1
    assert place.told_kinds(result["run"], "exchange")[0]["failure"] == "timed_out"


def test_a_model_that_declines_is_not_pressed(make, server):
    place = make()
    server.plays(refuses("I will not write kernels."))
    result = place.build(Replay([]))
    assert place.endings(result["run"]) == ["refused"] * 3 and len(server.requests) == 3
    assert "nothing is left" in result["stopped_because"]


def test_a_provider_that_is_down_leaves_the_work_to_the_tuner(make, server):
    place = make()
    server.plays(fails(503))
    result = place.build(Replay(["kept"] + ["rejected"] * 5), agents="tuner,coder")
    assert sum(result["trials"].values()) == 6
    assert place.endings(result["run"]) == ["provider"] and len(server.requests) == 3


def test_a_key_that_is_refused_is_not_tried_again(make, server):
    place = make()
    server.plays(fails(401, f"bad key {KEY}"))
    result = place.build(Replay([]))
    assert len(server.requests) == 1
    (told,) = place.told_kinds(result["run"], "conversation")
    assert told["ended"] == "provider" and "bad key [redacted]" in told["detail"]


def test_a_missing_key_is_said_before_anything_is_built(make, server, monkeypatch):
    monkeypatch.delenv("CODER_KEY")
    place = make()
    with pytest.raises(TargetError, match="CODER_KEY"):
        place.build(Replay([]))
    assert not place.settings.runs.exists()


def test_a_budget_of_zero_makes_no_call(make, server):
    place = make(limits="tokens = 0")
    server.plays(*lands())
    result = place.build(Replay(["kept"] + ["rejected"] * 5), agents="tuner,coder")
    assert server.requests == [] and sum(result["trials"].values()) == 6
    assert place.endings(result["run"]) == ["budget"]


def test_tokens_are_a_hard_limit(make, server):
    place = make(limits="tokens = 60_000\nanswer_tokens = 1000")
    server.plays(uses(("list_files", {}), usage=(9000, 900)))
    result = place.build(Replay([]))
    told = result["agents"][0]["tokens"]
    assert told["input"] + told["output"] <= 60_000 and len(server.requests) in (4, 5)
    assert place.endings(result["run"]) == ["budget"]
    assert all(held["max_tokens"] <= 1000 for held in server.requests)


def test_money_is_a_hard_limit_and_is_shown(make, server):
    place = make(limits="money = 0.50\nanswer_tokens = 1000",
                 prices="input = 10.0\noutput = 100.0")  # fmt: skip
    server.plays(uses(("list_files", {}), usage=(9000, 500)))
    result = place.build(Replay([]))
    money = result["agents"][0]["money"]
    assert money["limit"] == 0.5 and money["currency"] == "USD"
    assert 0 < money["spent"] <= 0.5 and place.endings(result["run"]) == ["budget"]
    assert any(held.kind == "exchange" and held.details["spent_money"] for held in place.told)


def test_what_a_killed_process_had_under_way_counts_in_full(make, server):
    place = make(limits="tokens = 60_000")

    def dies(request, handler):
        raise AssertionError("the test ends before an answer is written")

    server.plays(*lands())
    with pytest.raises(Killed):
        place.build(Replay(["killed"]))
    (run,) = place.archive.runs()
    # An attempt that was begun and whose end nobody wrote down.
    place.archive.note(run.id, "asking", {
        "agent": "coder", "conversation": 9, "turn": 0, "attempt": 1, "input_tokens": 59_000,
        "output_tokens": 900, "money": 0.0,
    })  # fmt: skip
    before = len(server.requests)
    result = place.build(Replay(["kept"]))
    assert result["run"] == run.id and len(server.requests) == before
    assert result["trials"]["kept"] == 1, "what was handed in is judged all the same"


@pytest.mark.parametrize("where", ["build", "trial"])
def test_killed_with_a_coders_candidate_it_goes_on_with_it(make, server, where):
    place = make()
    server.plays(*lands(), gives_up())
    bench = Replay(["kept"])
    seen = []

    real = getattr(bench, where)

    def dying(*arguments):
        is_candidate = where == "trial" or arguments[3].name.endswith("-001")
        if is_candidate and not seen:
            seen.append(True)
            raise Killed(where)
        return real(*arguments)

    setattr(bench, where, dying)
    with pytest.raises(Killed):
        place.build(bench)
    result = place.build(Replay(["kept"]))
    assert len(place.archive.runs()) == 1
    assert result["trials"] == {"kept": 1, "rejected": 0, "void": 0}
    assert [held.tactic for held in place.searched(result["run"])] == ["naive", "coder:coder"]


def test_a_submission_whose_candidate_was_never_kept_waits_still(make, server, monkeypatch):
    from enginewright.swarm.run_state import RunState

    place = make()
    server.plays(*lands(), gives_up())
    real = RunState.add_candidate

    def dying(self, plan, **more):
        if more["stage"] == "search":
            raise Killed("between taken and kept")
        return real(self, plan, **more)

    monkeypatch.setattr(RunState, "add_candidate", dying)
    with pytest.raises(Killed):
        place.build(Replay([]))
    monkeypatch.setattr(RunState, "add_candidate", real)
    assert place.build(Replay(["kept"]))["trials"]["kept"] == 1


def test_agents_take_turns_and_a_resume_goes_on_with_the_same_turn(make, server):
    place = make()
    answers = []
    for number in range(6):
        answers += lands(f"silu_rows_{'abcdef'[number]}")
    server.plays(*answers)
    with pytest.raises(Killed):
        place.build(Replay(["kept", "rejected", "killed"]), agents="tuner,coder")
    result = place.build(Replay(["rejected"] * 4), agents="tuner,coder")
    tactics = [held.tactic for held in place.searched(result["run"])]
    assert tactics == ["naive"] + ["spin", "coder:coder"] * 3


def test_a_run_may_go_on_without_the_coder_it_began_with(make, server):
    place = make()
    server.plays(*lands(), gives_up())
    with pytest.raises(Killed):
        place.build(Replay(["kept", "killed"]), agents="coder,tuner")
    result = place.build(Replay(["rejected"] * 5), agents="tuner")
    assert len(place.archive.runs()) == 1
    assert result["trials"] == {"kept": 1, "rejected": 5, "void": 0}


def test_several_conversations_at_once_are_taken_up_in_their_order(make, server):
    place = make(limits="concurrent = 3")

    def step(request, handler):
        """The same four answers for each conversation, told apart by what was said so far."""
        turn = sum(held["role"] == "assistant" for held in request["messages"])
        lands(note=str(len(server.requests)))[turn](request, handler)

    server.plays(step)
    result = place.build(Replay(["rejected"] * 6))
    told = place.told_kinds(result["run"], "submitted")
    taken = place.told_kinds(result["run"], "taken")
    by_number = {held["submission"]: held["conversation"] for held in told}
    assert [by_number[held["submission"]] for held in taken] == list(range(6))


def test_the_key_is_in_no_file_and_in_no_prompt(make, server, tmp_path, monkeypatch):
    place = make()
    server.plays(
        uses(writes("kernels/silu_rows.rs", kernel(note=f"{KEY} sk-{'b' * 24}")),
             writes("change.json", use("silu_rows"))),
        uses(("read_file", {"path": "kernels/silu_rows.rs"})),
        uses(submits(f"because {KEY}")),
        gives_up(),
    )  # fmt: skip
    place.build(Replay(["kept"]))
    sent = json.dumps(server.requests)
    assert KEY not in sent and "sk-bbbb" not in sent and "[redacted]" in sent
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    holding = [path for path in files if KEY.encode() in path.read_bytes()]
    assert holding == []
    with sqlite3.connect(place.settings.home / "archive.sqlite") as held:
        assert KEY not in "\n".join(held.iterdump())


def test_a_recording_gives_the_same_lineage_without_a_server(make, server):
    place = make()
    server.plays(*lands(checks=False), *lands("silu_again"), gives_up())
    script = ["kept", "wrong", "rejected", "rejected", "rejected", "rejected"]
    first = place.build(Replay(script), agents="tuner,coder")
    asked = len(server.requests)
    for _ in range(2):
        again = place.build(Replay(script), agents="tuner,coder:recorded")
        assert place.lineage(again["run"]) == place.lineage(first["run"])
        assert again["run"] != first["run"] and len(server.requests) == asked
    told = next(held for held in again["agents"] if held["kind"] == "coder")
    assert told["tokens"]["input"] == 0 and told["provider"] == "recorded"


def test_a_recording_of_nothing_or_of_another_prompt_is_refused(make, server, tmp_path):
    place = make()
    with pytest.raises(UsageError, match=r"no run of tiny\.cpu has a recording"):
        place.build(Replay([]), agents="coder:recorded")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(UsageError, match="holds no answer"):
        place.build(Replay([]), agents=f"coder:recorded={empty}")
    server.plays(*lands(), gives_up())
    run = place.build(Replay(["kept"]))["run"]
    state = place.state(run)
    from enginewright.swarm.agents.accounts import exchanges

    other = [held | {"prompt": "coder/0"} for held in exchanges(state)]
    empty.write_text("\n".join(json.dumps(held) for held in other))
    with pytest.raises(UsageError, match="coder/0"):
        place.build(Replay([]), agents=f"coder:recorded={empty}")


def test_a_change_of_settings_alone_is_a_submission_too(make, server):
    place = make()
    server.plays(uses(writes("change.json", SPIN)), uses(submits()), gives_up())
    result = place.build(Replay(["kept"]))
    candidate = place.archive.candidate(result["champion_candidate"])
    assert place.state(result["run"]).plan(candidate).pool.spin_microseconds == 5


def test_the_same_candidate_twice_is_refused_at_the_desk(make, server):
    place = make()
    again = [uses(writes("change.json", SPIN)), uses(submits()), gives_up()]
    server.plays(uses(writes("change.json", SPIN)), uses(submits()), *again)
    result = place.build(Replay(["rejected"]))
    assert sum(result["trials"].values()) == 1
    assert "tried before" in server.results(4)[-1]
