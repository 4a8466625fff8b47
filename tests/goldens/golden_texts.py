"""The texts that record.py puts through the real models."""

from __future__ import annotations

_STORY = (
    "The lighthouse keeper had counted ships for thirty-one years. Each evening, at 18:45, he"
    " climbed the spiral stairs, trimmed the wick and wrote the weather in a ledger: wind "
    "north-west, 4 Beaufort; sea moderate; visibility 12 nautical miles. Nobody read the "
    "ledger. In winter the supply boat came once a month with flour, paraffin and letters "
    "from a sister in Bergen who always asked the same question."
)

PROMPTS = {
    "short": "The capital of France is",
    "one_token": "The",
    "middle": (
        "Photosynthesis is the process by which green plants turn light into chemical energy. It "
        "takes place in the chloroplasts, where chlorophyll absorbs mostly red and blue light. The "
        "overall reaction uses carbon dioxide and water, and it releases oxygen. In summary, plants"
    ),
    "code": "def fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n\treturn",
    "unicode": (
        "naïve café — “quotes”… Здравствуй, 世界! 🦀👩‍👩‍👧 1234567 3.14159\u00a0km\u200b\r\n\r\n  "
        "déjà-vu I'LL we've it's"
    ),
    "long": (_STORY + " ") * 3 + "One night,",
}

CHATS = {
    "chat": [{"role": "user", "content": "Name three primary colours."}],
    "chat_system": [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "Which planet is the largest?"},
        {"role": "assistant", "content": "Jupiter"},
        {"role": "user", "content": "And the smallest?"},
    ],
}

SENTENCES = {
    "one_word": "hello",
    "short": "A man is eating food.",
    "paraphrase": "Someone is having a meal.",
    "unicode": "Über-naïve café: 東京 ist schön — 🦀 C₂H₅OH, don't!",
    "middle": PROMPTS["middle"],
    "long": _STORY + " " + PROMPTS["middle"],
}
