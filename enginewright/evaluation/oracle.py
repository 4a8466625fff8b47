"""The reference engine as judge of outputs: how likely it finds the tokens emitted, and its own
embeddings. It runs in a process of its own and is idle while anything is timed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from enginewright.errors import EngineError
from enginewright.evaluation.answers import embedding_values
from enginewright.evaluation.running_server import Server
from enginewright.evaluation.wire import call, first_model

Floats = npt.NDArray[np.float32]


class _Startable(Protocol):
    def start(self, log: Path) -> Server: ...


class Oracle:
    """The running reference engine. Answers are remembered, so that nothing is computed twice."""

    def __init__(self, arm: _Startable, log: Path, *, timeout_seconds: float = 600.0) -> None:
        """Start it. Raises: EngineError if it does not start."""
        self._server = arm.start(log)
        self._timeout_seconds = timeout_seconds
        self._regrets: dict[str, tuple[float, ...]] = {}
        self._embeddings: dict[str, Floats] = {}
        try:
            self._model = first_model(self._server.base_url, timeout_seconds=60.0)
        except BaseException:
            self._server.stop()
            raise

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine."""
        self._server.stop()

    def regrets(self, prompt_ids: Sequence[int], emitted_ids: Sequence[int]) -> tuple[float, ...]:
        """For each emitted token, in nats: log-probability of the best token at its place minus
        its own, given the prompt and the tokens emitted before it.

        Raises: EngineError if the engine fails or answers nonsense.
        """
        key = _key(prompt_ids, emitted_ids)
        if key not in self._regrets:
            self._regrets[key] = self._score(prompt_ids, emitted_ids)
        return self._regrets[key]

    def _score(self, prompt_ids: Sequence[int], emitted_ids: Sequence[int]) -> tuple[float, ...]:
        answer = self._post(
            "/v1/completions",
            {
                "prompt": [*prompt_ids, *emitted_ids],
                "echo": True,
                "max_tokens": 0,
                "logprobs": 1,
                "temperature": 0,
            },
        )
        try:
            held = answer["choices"][0]["logprobs"]  # type: ignore[index]
            own = held["token_logprobs"][len(prompt_ids) :]
            top = [max(best.values()) for best in held["top_logprobs"][len(prompt_ids) :]]
            regrets = tuple(float(best) - float(mine) for best, mine in zip(top, own, strict=True))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(
                f"the reference engine's log-probabilities cannot be read: {error!r}",
                hint="it must serve /v1/completions with echo, max_tokens 0 and logprobs",
            ) from error
        if len(regrets) != len(emitted_ids) or not np.isfinite(regrets).all():
            raise EngineError(
                f"the reference engine gives {len(regrets)} log-probabilities for "
                f"{len(emitted_ids)} tokens, or infinite ones"
            )
        return tuple(max(0.0, regret) for regret in regrets)

    def embeddings(self, texts: Sequence[str]) -> Floats:
        """Its embeddings, `[texts, width]`.

        Raises: EngineError if the engine fails or answers nonsense.
        """
        for text in texts:
            if text not in self._embeddings:
                answer = self._post("/v1/embeddings", {"input": [text]})
                try:
                    values = embedding_values(answer["data"][0]["embedding"])  # type: ignore[index]
                except (KeyError, IndexError, TypeError, ValueError) as error:
                    raise EngineError(
                        f"the reference engine's embedding cannot be read: {error!r}"
                    ) from error
                self._embeddings[text] = np.asarray(values, dtype=np.float32)
        return np.stack([self._embeddings[text] for text in texts])

    def _post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        try:
            return call(
                self._server.base_url,
                path,
                {"model": self._model, **body},
                timeout_seconds=self._timeout_seconds,
            )
        except EngineError as error:
            if self._server.is_alive:
                raise
            raise self._server.failure("died", "has ended") from error


def _key(prompt_ids: Sequence[int], emitted_ids: Sequence[int]) -> str:
    text = json.dumps([list(prompt_ids), list(emitted_ids)])
    return hashlib.sha256(text.encode()).hexdigest()
