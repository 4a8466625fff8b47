"""A Hugging Face tokenizer out of GGUF metadata.

Source: the pre-tokenizers of llama.cpp (`llama-vocab.cpp`), each written as the tokenizer.json
that the model's authors publish.
"""

from __future__ import annotations

from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.read_json import Fields
from enginewright.model.text import CONTROL_TOKEN_TYPE, adds_bos, gguf_tokens

UNKNOWN_TOKEN_TYPE = 2
USER_TOKEN_TYPE = 4

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DIGITS = {"llama-bpe": r"\p{N}{1,3}", "qwen2": r"\p{N}"}
BYTE_LEVEL_NAMES = ("gpt-2", "smollm", "llama-bpe", "qwen2")
"""Values of `tokenizer.ggml.pre` that are known."""


def tokenizer_from_gguf(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that GGUF metadata describes.

    Raises: CheckpointError if there is none, or its kind is not known.
    """
    tokens, types = gguf_tokens(checkpoint)
    if not tokens:
        raise CheckpointError(
            f"{checkpoint.described_as}: the tokenizer is missing (field `tokenizer.ggml.tokens`)",
            hint="convert the checkpoint again, with its tokenizer",
        )
    fields = Fields(checkpoint.config, source=checkpoint.described_as, prefix="tokenizer.ggml.")
    kind = fields.text("model")
    try:
        if kind == "gpt2":
            tokenizer = _byte_level(fields, tokens)
        elif kind == "llama":
            tokenizer = _sentencepiece(fields, tokens)
        else:
            raise CheckpointError(
                f"{checkpoint.described_as}: tokenizer model `{kind}` is not known; known: gpt2, "
                "llama",
                hint="docs/adding-a-model.md says how to add one",
            )
        _add_tokens(tokenizer, tokens, types)
    except CheckpointError:
        raise
    except Exception as error:
        # The library raises bare Exception when merges and vocabulary disagree.
        raise CheckpointError(
            f"{checkpoint.described_as}: the tokenizers library refuses the tokenizer: {error}"
        ) from error
    if adds_bos(fields) and "bos_token_id" in fields:
        bos_id = fields.integer("bos_token_id", least=0, most=len(tokens) - 1)
        bos = tokens[bos_id]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, bos_id)]
        )
    return tokenizer


def _byte_level(fields: Fields, tokens: list[str]) -> Tokenizer:
    name = fields.text("pre", "default")
    if name not in BYTE_LEVEL_NAMES:
        raise CheckpointError(
            f"{fields.source}: pre-tokenizer `{name}` is not known; known: "
            f"{', '.join(BYTE_LEVEL_NAMES)}",
            hint="docs/adding-a-model.md says how to add one",
        )
    tokenizer = Tokenizer(
        models.BPE(
            vocab=_vocabulary(fields, tokens),
            merges=_merges(fields),
            ignore_merges=name == "llama-bpe",
        )
    )
    if name in _DIGITS:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_WORDS % _DIGITS[name]), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    elif name == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(fields: Fields, tokens: list[str]) -> Tokenizer:
    vocabulary = _vocabulary(fields, tokens)
    unknown = fields.integer("unknown_token_id", 0, least=0, most=len(tokens) - 1)
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=_merges_from_scores(fields, tokens, vocabulary),
            unk_token=tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    steps: list[Any] = [normalizers.Replace(" ", "▁")]
    ends: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if fields.flag("add_space_prefix", True):
        steps.insert(0, normalizers.Prepend("▁"))
        ends.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(ends)
    return tokenizer


def _vocabulary(fields: Fields, tokens: list[str]) -> dict[str, int]:
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        twice = next(
            token for token_id, token in enumerate(tokens) if vocabulary[token] != token_id
        )
        raise CheckpointError(f"{fields.source}: the tokenizer has token {twice!r} twice")
    return vocabulary


def _merges(fields: Fields) -> list[tuple[str, str]]:
    merges = fields.values.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise CheckpointError(
            f"{fields.source}: field `tokenizer.ggml.merges` is missing",
            hint="convert the checkpoint again, with its tokenizer",
        )
    pairs = []
    for merge in merges:
        # A space separates the halves; a half may start with one.
        first, space, second = str(merge)[1:].partition(" ")
        if not space or not second:
            raise CheckpointError(f"{fields.source}: merge {merge!r} is no pair of tokens")
        pairs.append((str(merge)[0] + first, second))
    return pairs


def _merges_from_scores(
    fields: Fields, tokens: list[str], vocabulary: dict[str, int]
) -> list[tuple[str, str]]:
    scores = fields.values.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise CheckpointError(
            f"{fields.source}: field `tokenizer.ggml.scores` must be a list as long as the tokens"
        )
    found = []
    for token_id, token in enumerate(tokens):
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [pair for pair in halves if pair[0] in vocabulary and pair[1] in vocabulary]
        # SentencePiece merges by the score of the whole; among its halves the earlier pieces come
        # first.
        known.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        found += [(-float(scores[token_id]), token_id, pair) for pair in known]
    found.sort(key=lambda entry: entry[:2])
    return [pair for _, _, pair in found]


def _add_tokens(tokenizer: Tokenizer, tokens: list[str], types: list[int]) -> None:
    special = [
        AddedToken(token, normalized=False, special=True)
        for token, kind in zip(tokens, types, strict=True)
        if kind in (CONTROL_TOKEN_TYPE, UNKNOWN_TOKEN_TYPE) and token
    ]
    user = [
        AddedToken(token, normalized=False, special=False)
        for token, kind in zip(tokens, types, strict=True)
        if kind == USER_TOKEN_TYPE and token
    ]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(user)
