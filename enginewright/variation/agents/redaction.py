"""Secrets never reach a prompt, the archive or a recording."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = "[redacted]"
_SHAPES = re.compile(
    r"""(?x)
    \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}          # OpenAI, Anthropic and their like
    | \bgh[pousr]_[A-Za-z0-9]{20,}             # GitHub
    | \bhf_[A-Za-z0-9]{20,}                    # Hugging Face
    | \bAKIA[0-9A-Z]{16}\b                     # AWS
    | (?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?-----END[ A-Z]*PRIVATE\ KEY-----
    """,
    re.DOTALL,
)
_LEAST_SECRET = 6
"""Shorter values are no keys: marking every place where they stand would ruin the text."""


class Redactor:
    """Replaces known secrets, and what has the shape of one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets`: values that must not be seen, whatever they look like."""
        # The longest first: one may be a part of another.
        self._secrets = sorted({text for text in secrets if len(text) >= _LEAST_SECRET}, key=len)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in reversed(self._secrets):
            text = text.replace(secret, MARK)
        return _SHAPES.sub(MARK, text)
