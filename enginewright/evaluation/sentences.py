"""Natural-looking sentences from a seed."""

from __future__ import annotations

import random

from enginewright.evaluation.words import ADJECTIVES, NOUNS, OPENERS, PLACES, VERBS


def sentence(source: random.Random) -> str:
    """One sentence of 10 to 16 words."""
    choose = source.choice
    opener = choose(OPENERS)
    number = source.randrange(2, 100)
    parts = (
        f"{opener} the {choose(ADJECTIVES)} {choose(NOUNS)} "
        f"{choose(VERBS)} {number} {choose(ADJECTIVES)} {choose(NOUNS)}s "
        f"{choose(PLACES)} the {choose(NOUNS)}.",
        f"{opener} the {choose(NOUNS)} {choose(VERBS)} the "
        f"{choose(ADJECTIVES)} {choose(NOUNS)} {choose(PLACES)} the "
        f"{choose(ADJECTIVES)} {choose(NOUNS)}.",
        f"{opener} {number} {choose(NOUNS)}s and the {choose(ADJECTIVES)} "
        f"{choose(NOUNS)} {choose(VERBS)} the {choose(NOUNS)}.",
    )
    return choose(parts)


def text_of_words(source: random.Random, words: int) -> str:
    """Sentences cut to exactly so many words, with a full stop at the end."""
    held: list[str] = []
    while len(held) < words:
        held += sentence(source).split()
    return " ".join(held[:words]).rstrip(".") + "."
