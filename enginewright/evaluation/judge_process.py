"""The judge as a process: `python -m enginewright.evaluation.judge_process --channel-fd N`.

The channel is a socket that was opened before any candidate's code ran; no candidate inherits it.
Its first line is `{"key": HEX, "case": {…}}`, each further line a question
`{"nonce": HEX, "ask": NAME, …}`. Each answer is one line `{"nonce", "mac", "answer"}`: `answer` is
JSON as text, `mac` its HMAC-SHA256 with the nonce under the key. It ends with the channel.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enginewright.errors import EnginewrightError, UsageError
from enginewright.evaluation.judge import Judge, MeasureQuestion, TrialQuestion
from enginewright.evaluation.judge_case import QUESTIONS, case_from_json


def sign(key: bytes, nonce: str, answer: str) -> str:
    """What shows that an answer is to this question and from this judge."""
    return hmac.new(key, f"{nonce}\n{answer}".encode(), hashlib.sha256).hexdigest()


def answer_question(judge: Judge, asked: dict[str, Any]) -> dict[str, Any]:
    """Carry out one question.

    Raises: EnginewrightError; UsageError names a field that is missing.
    """
    name = asked.get("ask")
    answers: dict[str, Callable[[], dict[str, Any]]] = {
        "trial": lambda: judge.trial(
            TrialQuestion(
                champion=Path(asked["champion"]),
                candidate=Path(asked["candidate"]),
                work=_folder(asked["work"]),
                limits=asked.get("limits", {}),
                level=asked.get("level"),
                smallest_effect=asked.get("smallest_effect"),
            )
        ),
        "calibrate": lambda: judge.calibrate(
            Path(asked["champion"]), int(asked["blocks"]), _folder(asked["work"])
        ),
        "measure": lambda: judge.measure(
            MeasureQuestion(
                arms={name: Path(path) for name, path in asked["arms"].items()},
                blocks=int(asked["blocks"]),
                work=_folder(asked["work"]),
                with_baselines=bool(asked.get("with_baselines", False)),
                required=tuple(asked.get("required", ())),
                compared_to=asked.get("compared_to"),
                repeated_blocks=int(asked.get("repeated_blocks", 0)),
            )
        ),
        "confirm": lambda: judge.confirm(
            Path(asked["champion"]), int(asked["blocks"]), _folder(asked["work"])
        ),
    }
    if name not in answers:
        raise UsageError(f"the judge is asked for {name!r}; it knows {', '.join(QUESTIONS)}")
    try:
        return answers[name]()
    except KeyError as error:
        raise UsageError(
            f"the question {name!r} lacks {error}", hint="docs/judge.md has the contract"
        ) from error


def _folder(path: str) -> Path:
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def serve(channel: socket.socket) -> None:
    """Answer until the channel ends."""
    lines = channel.makefile("r", encoding="utf-8")
    opening = json.loads(lines.readline())
    key = bytes.fromhex(opening["key"])
    judge: Judge | None = None
    try:
        for line in lines:
            asked = json.loads(line)
            try:
                if judge is None:
                    judge = Judge(case_from_json(opening["case"]))
                answer = answer_question(judge, asked)
            except EnginewrightError as error:
                answer = {
                    "error": {
                        "kind": type(error).__name__,
                        "message": error.message,
                        "hint": error.hint,
                    }
                }
            text = json.dumps(answer)
            nonce = str(asked["nonce"])
            told = {"nonce": nonce, "mac": sign(key, nonce, text), "answer": text}
            channel.sendall((json.dumps(told) + "\n").encode())
    finally:
        if judge is not None:
            judge.close()


def main() -> None:
    """Serve the channel whose file descriptor is given."""
    parser = argparse.ArgumentParser(description="The judge's own process.")
    parser.add_argument("--channel-fd", type=int, required=True)
    with socket.socket(fileno=parser.parse_args().channel_fd) as channel:
        # Programs that the judge starts must not find it.
        channel.set_inheritable(False)
        serve(channel)


if __name__ == "__main__":
    main()
