"""Whether two engines answer alike, byte for byte: the check after linking."""

from __future__ import annotations

import json
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from enginewright.errors import EngineError

LENGTHS = (1, 7, 40, 150)
"""Tokens of the prompts that are compared."""
OUTPUT_TOKENS = 24
"""Tokens generated from each."""
ANSWER_SECONDS = 120.0
"""How long an answer may take."""


def check_same_answers(
    one: list[str], other: list[str], *, is_encoder: bool, vocabulary: int
) -> int:
    """Ask both engines (commands that serve) the same fresh questions; the number asked.

    Raises: EngineError if one does not start or an answer differs.
    """
    draw = np.random.default_rng(secrets.randbits(64))
    prompts = [draw.integers(0, vocabulary, length).tolist() for length in LENGTHS]
    with _serving(one) as first, _serving(other) as second:
        for prompt in prompts:
            answers = [_ask(address, prompt, is_encoder=is_encoder) for address in (first, second)]
            if answers[0] != answers[1]:
                raise EngineError(
                    f"the linked program answers a prompt of {len(prompt)} tokens otherwise than "
                    "the engine it was linked from",
                    hint="this is a bug of the compiler, a kernel or ours: keep both and report it",
                )
    return len(prompts)


def _ask(address: str, prompt: list[int], *, is_encoder: bool) -> Any:
    body: dict[str, Any]
    if is_encoder:
        route, body = "embeddings", {"input": prompt}
    else:
        route = "completions"
        body = {"prompt": prompt, "max_tokens": OUTPUT_TOKENS, "temperature": 0}
        body |= {"return_token_ids": True, "ignore_eos": True, "logprobs": 1}
    request = urllib.request.Request(
        f"http://{address}/v1/{route}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
        answer = json.load(response)
    if is_encoder:
        return answer["data"]
    return [(choice["token_ids"], choice["logprobs"]) for choice in answer["choices"]]


@contextmanager
def _serving(command: list[str]) -> Iterator[str]:
    """The address of a served engine, which is stopped at the end."""
    process = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise EngineError(f"{command[0]} does not start: {process.stderr.read().strip()}")
        yield json.loads(line)["address"]
    finally:
        process.terminate()
        process.communicate(timeout=60)
