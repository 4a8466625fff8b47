"""What a checkpoint says about text: chat template, first and last tokens. GGUF metadata or Hugging
Face files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.graph import Text
from enginewright.model.read_json import Fields, read_json_object

CONTROL_TOKEN_TYPE = 3
"""`tokenizer.ggml.token_type` of a control token."""

END_OF_TURN_TOKENS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
)
"""Control tokens that end an answer whatever the metadata calls the end. Source: llama.cpp's end-
of-generation set."""

BOS_BY_DEFAULT = {"llama": True, "gpt2": False}
"""`add_bos_token` of GGUF tokenizer models that do not say."""


def read_text(checkpoint: Checkpoint, *, vocabulary: int) -> Text:
    """Text matters of a checkpoint whose embedding has `vocabulary` rows.

    Raises: CheckpointError if a field has the wrong type, or a token lies outside the embedding.
    """
    text = _from_gguf(checkpoint) if checkpoint.format == "gguf" else _from_folder(checkpoint)
    for token_id in [*text.eos_ids, *([] if text.bos_id is None else [text.bos_id])]:
        if not 0 <= token_id < vocabulary:
            raise CheckpointError(
                f"{checkpoint.described_as}: token {token_id} lies outside the embedding of "
                f"{vocabulary} rows"
            )
    _check_unicode(checkpoint, text)
    return text


def gguf_tokens(checkpoint: Checkpoint) -> tuple[list[str], list[int]]:
    """Texts and types of the tokens in GGUF metadata; empty lists if there is no tokenizer.

    Raises: CheckpointError if the two lists do not match.
    """
    tokens = checkpoint.config.get("tokenizer.ggml.tokens") or []
    types = checkpoint.config.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    is_texts = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    if not is_texts or not isinstance(types, list) or len(types) != len(tokens):
        raise CheckpointError(
            f"{checkpoint.described_as}: fields `tokenizer.ggml.tokens` and "
            "`tokenizer.ggml.token_type` must be lists "
            "of one length"
        )
    return tokens, [int(kind) for kind in types]


def adds_bos(fields: Fields) -> bool:
    """Whether the tokenizer in GGUF metadata puts the first token in front of every text."""
    default = BOS_BY_DEFAULT.get(fields.text("model", "gpt2"), False)
    # llama.cpp has the pre-tokenizer of llama 3 add it unless told otherwise.
    return fields.flag("add_bos_token", default or fields.text("pre", "default") == "llama-bpe")


def _check_unicode(checkpoint: Checkpoint, text: Text) -> None:
    for name in ("chat_template", "bos_token", "eos_token"):
        try:
            (getattr(text, name) or "").encode("utf-8")
        except UnicodeEncodeError as error:
            # JSON can spell half a surrogate pair; UTF-8 cannot.
            raise CheckpointError(
                f"{checkpoint.described_as}: the {name} is no Unicode text: {error.reason}"
            ) from error


def _from_gguf(checkpoint: Checkpoint) -> Text:
    tokens, types = gguf_tokens(checkpoint)
    fields = Fields(checkpoint.config, source=checkpoint.described_as, prefix="tokenizer.ggml.")
    bos_id = _optional_id(fields, "bos_token_id")
    eos_ids = [
        token_id
        for name in ("eos_token_id", "eot_token_id", "eom_token_id")
        if (token_id := _optional_id(fields, name)) is not None
    ]
    for token_id, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind == CONTROL_TOKEN_TYPE and token in END_OF_TURN_TOKENS:
            eos_ids.append(token_id)
    eos_ids = list(dict.fromkeys(eos_ids))
    template = checkpoint.config.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise CheckpointError(
            f"{checkpoint.described_as}: field `tokenizer.chat_template` is no text"
        )
    return Text(
        chat_template=template,
        bos_id=bos_id,
        eos_ids=eos_ids,
        add_bos=bos_id is not None and adds_bos(fields),
        bos_token=_token(tokens, bos_id),
        eos_token=_token(tokens, eos_ids[0] if eos_ids else None),
    )


def _from_folder(checkpoint: Checkpoint) -> Text:
    folder = checkpoint.folder
    tokenizer_config = _optional_object(folder / "tokenizer_config.json")
    generation = _optional_object(folder / "generation_config.json")
    vocabulary = _vocabulary_of(folder / "tokenizer.json")
    bos_token = _token_text(tokenizer_config.get("bos_token"))
    eos_token = _token_text(tokenizer_config.get("eos_token"))
    bos_id = vocabulary.get(bos_token or "", checkpoint.config.get("bos_token_id"))
    eos_ids = _ids(generation.get("eos_token_id"), checkpoint.config.get("eos_token_id"))
    extra = [eos_token] if eos_token else []
    eos_ids += [vocabulary[token] for token in (*extra, *END_OF_TURN_TOKENS) if token in vocabulary]
    return Text(
        chat_template=_chat_template(folder, tokenizer_config),
        bos_id=bos_id if type(bos_id) is int else None,
        eos_ids=list(dict.fromkeys(eos_ids)),
        add_bos=type(bos_id) is int and _encoding_starts_with(folder / "tokenizer.json", bos_id),
        bos_token=bos_token,
        eos_token=eos_token,
    )


def _optional_id(fields: Fields, name: str) -> int | None:
    return fields.integer(name, least=0) if name in fields else None


def _token(tokens: list[str], token_id: int | None) -> str | None:
    return tokens[token_id] if token_id is not None and token_id < len(tokens) else None


def _optional_object(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.is_file() else {}


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _ids(*values: Any) -> list[int]:
    for value in values:
        if type(value) is int:
            return [value]
        if isinstance(value, list) and value and all(type(item) is int for item in value):
            return list(value)
    return []


def _chat_template(folder: Path, tokenizer_config: dict[str, Any]) -> str | None:
    separate = folder / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    template = tokenizer_config.get("chat_template")
    if isinstance(template, list):
        named = {
            entry.get("name"): entry.get("template")
            for entry in template
            if isinstance(entry, dict)
        }
        template = named.get("default")
    return template if isinstance(template, str) else None


def _vocabulary_of(path: Path) -> dict[str, int]:
    if not path.is_file():
        return {}
    added = read_json_object(path).get("added_tokens") or []
    return {
        entry["content"]: entry["id"]
        for entry in added
        if isinstance(entry, dict)
        and isinstance(entry.get("content"), str)
        and type(entry.get("id")) is int
    }


def _encoding_starts_with(path: Path, token_id: int) -> bool:
    if not path.is_file():
        return False
    # Here and not at the top: tokenizer.py reads from this file.
    from enginewright.model.tokenizer import load_tokenizer

    ids: list[int] = load_tokenizer(path).encode("a").ids
    return ids[:1] == [token_id]
