"""Fresh prompts of an exact length: natural-looking text, never used twice, from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from enginewright.errors import TargetError
from enginewright.evaluation.sentences import sentence
from enginewright.evaluation.words import NOUNS

_ATTEMPTS = 400


class PromptSource:
    """Texts that the tokenizer turns into exactly so many tokens; each is given once.

    What it gives is stable: the ids of a text, decoded and encoded again, are the same ids.
    """

    def __init__(self, tokenizer_file: Path, seed: int) -> None:
        """`tokenizer_file` is the tokenizer.json of the reference engine, not of a candidate."""
        self._tokenizer: Any = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._random = random.Random(seed)
        self._given: set[str] = set()
        self.seed = seed

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, special tokens included."""
        return [int(token) for token in self._tokenizer.encode(text).ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def prompt(self, tokens: int) -> str:
        """A new text of exactly `tokens` tokens, special tokens included.

        Raises: TargetError if the tokenizer makes no text of that length.
        """
        for _ in range(_ATTEMPTS):
            text = self._attempt(tokens)
            if text is None or text in self._given:
                continue
            if self._is_stable(text, tokens):
                self._given.add(text)
                return text
        raise TargetError(
            f"no text of exactly {tokens} tokens was found in {_ATTEMPTS} attempts",
            hint="choose a larger prompt_tokens",
        )

    def prompts(self, tokens: int, count: int) -> list[str]:
        """`count` new texts of exactly `tokens` tokens each."""
        return [self.prompt(tokens) for _ in range(count)]

    def _is_stable(self, text: str, tokens: int) -> bool:
        ids = self.ids(text)
        if len(ids) != tokens:
            return False
        return self.ids(self._tokenizer.decode(ids, skip_special_tokens=True)) == ids

    def _attempt(self, tokens: int) -> str | None:
        """Sentences up to the length, then single words until it is met; None if it is passed."""
        text = sentence(self._random)
        while len(self.ids(text)) < tokens:
            text = f"{text} {sentence(self._random)}"
        words = text.split(" ")
        # Cut back to below the length: the tokens of a prefix never exceed those of the whole.
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.ids(" ".join(words[:middle]))) <= tokens:
                low = middle
            else:
                high = middle - 1
        words = words[:low]
        for _ in range(8):
            missing = tokens - len(self.ids(" ".join(words)))
            if missing <= 0:
                break
            words.append(self._random.choice(NOUNS))
        return " ".join(words) if words else None
