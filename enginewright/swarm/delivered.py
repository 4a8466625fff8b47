"""Ship the champion, start the shipped program, ask it one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginewright.delivery.ship import ship
from enginewright.errors import EngineError
from enginewright.evaluation.engine_process import EngineArm
from enginewright.evaluation.wire import call, first_model
from enginewright.swarm.run_folder import disk_errors
from enginewright.swarm.workbench import Delivered, Subject

QUESTION = "What is the capital of France? Answer in one sentence."
SENTENCE = "A compiled engine answers without Python."
ANSWER_TOKENS = 48
ANSWER_SECONDS = 120.0


def deliver(
    subject: Subject, engine: Path, candidate: Path, out: Path, evidence: list[str]
) -> Delivered:
    """Link the engine into one program with the weights beside it.

    Raises: MachineError, EngineError as `ship`.
    """
    shipped = ship(engine, candidate, subject.checkpoint, out, evidence=evidence)
    return Delivered(binary=Path(shipped.binary), manifest=Path(shipped.manifest))


def ask_delivered(subject: Subject, delivered: Delivered, log: Path) -> dict[str, str]:
    """Start the program on a free port, ask one thing, stop it: `request` and `answer`.

    Raises: EngineError if it does not start or its answer is empty.
    """
    arm = EngineArm(
        name="shipped",
        fingerprint="shipped",
        command=(str(delivered.binary), "serve"),
    )
    with disk_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
    server = arm.start(log)
    try:
        return ask_server(server.base_url, subject)
    finally:
        server.stop()


def ask_server(base_url: str, subject: Subject) -> dict[str, str]:
    """One chat (a completion without a chat template, or an embedding) by plain HTTP."""
    model = first_model(base_url, timeout_seconds=ANSWER_SECONDS)
    if subject.graph.kind == "encoder":
        told = _post(base_url, "/v1/embeddings", {"model": model, "input": SENTENCE})
        vector = told["data"][0]["embedding"]
        first = ", ".join(f"{value:.4f}" for value in vector[:4])
        return {"request": SENTENCE, "answer": f"[{first}, …] ({len(vector)} values)"}
    body: dict[str, Any] = {"model": model, "max_tokens": ANSWER_TOKENS, "temperature": 0}
    if subject.graph.text.chat_template is None:
        told = _post(base_url, "/v1/completions", body | {"prompt": QUESTION})
        answer = told["choices"][0]["text"]
    else:
        messages = [{"role": "user", "content": QUESTION}]
        told = _post(base_url, "/v1/chat/completions", body | {"messages": messages})
        answer = told["choices"][0]["message"]["content"]
    if not answer.strip():
        raise EngineError("the shipped engine's answer is empty", hint="run `enginewright report`")
    return {"request": QUESTION, "answer": answer.strip()}


def _post(base_url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return call(base_url, path, body, timeout_seconds=ANSWER_SECONDS)
