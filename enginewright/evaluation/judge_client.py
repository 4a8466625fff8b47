"""The controller's end of the judge: starts its process, asks, and believes only what is signed."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import enginewright.errors as errors
from enginewright.errors import EnginewrightError, InternalError
from enginewright.evaluation.judge_case import JudgeCase, Question
from enginewright.evaluation.judge_process import sign
from enginewright.evaluation.running_server import die_with_parent, log_tail

_END_SECONDS = 20.0
"""How long it may take to stop the reference engine when it is closed."""


class JudgeGone(EnginewrightError):
    """The judge's process ended while it was asked: its question has no answer."""

    exit_code = 6


class JudgeProcess:
    """One judge for one case. Owns the process until `close`."""

    def __init__(self, case: JudgeCase, log: Path) -> None:
        """Start it; what it and its children print goes to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._key = secrets.token_bytes(32)
        self._channel, theirs = socket.socketpair()
        with log.open("ab") as output, theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "enginewright.evaluation.judge_process",
                    "--channel-fd",
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._lines = self._channel.makefile("r", encoding="utf-8")
        self._send({"key": self._key.hex(), "case": case.to_json()})

    def ask(self, question: Question, **fields: Any) -> dict[str, Any]:
        """The answer to one question (docs/judge.md).

        Raises: JudgeGone if the process ends; the error that the judge says, as it says it;
        InternalError if the answer is not signed by this judge for this question.
        """
        nonce = secrets.token_hex(16)
        self._send({"nonce": nonce, "ask": question, **fields})
        try:
            line = self._lines.readline()
        except OSError as error:
            raise self._gone() from error
        if not line.endswith("\n"):
            raise self._gone()
        told = json.loads(line)
        text = str(told.get("answer"))
        is_signed = hmac.compare_digest(str(told.get("mac")), sign(self._key, nonce, text))
        if told.get("nonce") != nonce or not is_signed:
            raise InternalError(
                "an answer of the judge is not signed for its question",
                hint="something else writes on its channel; the verdict is not believed",
            )
        answer: dict[str, Any] = json.loads(text)
        if "error" in answer:
            raise _error_of(answer["error"])
        return answer

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.sendall((json.dumps(message) + "\n").encode())
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> JudgeGone:
        try:
            code: int | None = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            code = None
        return JudgeGone(f"the judge ended with {code}; its log ends: {log_tail(self._log)}")

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process; what it started ends with it."""
        self._lines.close()
        self._channel.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _error_of(held: dict[str, Any]) -> EnginewrightError:
    kind = getattr(errors, str(held["kind"]), InternalError)
    if not (isinstance(kind, type) and issubclass(kind, EnginewrightError)):
        kind = InternalError
    return kind(held["message"], hint=held["hint"])
