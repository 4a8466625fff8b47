"""The recorded oracle: what the model's original implementation answered, and how far an engine is
from it.

The files in `goldens/` are made by tests/goldens/record.py from `transformers`; they are found by
the digest of the
checkpoint, so a renamed file is still known and a changed one is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from enginewright.errors import InternalError, UsageError

FOLDER = Path(__file__).resolve().parent / "goldens"
FORMAT = "enginewright.golden/1"

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCase:
    """One text and what the oracle made of it. Fields of the other kind of model are None."""

    name: str
    """Short name."""
    text: str
    """The text, chat template applied."""
    messages: tuple[dict[str, str], ...] | None
    """The chat that `text` comes from, if it comes from one."""
    ids: tuple[int, ...]
    """Its tokens."""
    positions: npt.NDArray[np.int32] | None
    """Positions whose logits were kept, `[P]`."""
    top_ids: npt.NDArray[np.int32] | None
    """The most likely tokens at each, best first, `[P, 64]`."""
    top_logits: Floats | None
    """Their logits, `[P, 64]`."""
    continuation: tuple[int, ...] | None
    """What greedy decoding adds, end tokens ignored."""
    embedding: Floats | None
    """The embedding, `[width]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Everything recorded of one checkpoint."""

    name: str
    """Name of the file."""
    checkpoint_sha256: str
    """Digest of the checkpoint's weights (`Checkpoint.sha256`)."""
    kind: Literal["decoder", "encoder"]
    """What the model is."""
    source: str
    """What made the figures: packages, versions, precision."""
    cases: tuple[GoldenCase, ...]
    """The texts."""

    @property
    def sequences(self) -> list[list[int]]:
        """Tokens of every case: what to run through an engine before `compare`."""
        return [list(case.ids) for case in self.cases]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderComparison:
    """How far logits are from the oracle's."""

    positions: int
    """Positions compared."""
    max_logit_error: float
    """Largest |difference| of a recorded logit."""
    mean_logit_error: float
    """Mean |difference| of the recorded logits."""
    top1_agreement: float
    """Share of positions with the oracle's most likely token."""
    worst_disagreement: float
    """Largest lead, in the oracle's logits, of its token over the one chosen instead; 0 if all
    agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderComparison:
    """How far embeddings are from the oracle's."""

    embeddings: int
    """Embeddings compared."""
    min_cosine: float
    """Smallest cosine."""
    max_error: float
    """Largest |difference| of a value."""


def find_golden(checkpoint_sha256: str, *, folder: Path = FOLDER) -> Golden | None:
    """The golden recorded for the checkpoint with this digest, or None."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as opened:
            described = _description(path, opened.metadata())
            if described["checkpoint_sha256"] == checkpoint_sha256:
                return _read(path.stem, described, opened)
    return None


def compare(
    golden: Golden, outputs: Sequence[Floats], *, cases: Sequence[str] | None = None
) -> DecoderComparison | EncoderComparison:
    """Compare an engine's answers with the oracle's.

    `outputs` has one array for each case (or for each name in `cases`, in that order): logits of
    every position `[T, vocabulary]`, or an embedding `[width]`.

    Raises: UsageError if number or shapes of the outputs do not fit, or a value is not finite.
    """
    by_name = {case.name: case for case in golden.cases}
    chosen = list(golden.cases) if cases is None else [by_name[name] for name in cases]
    if len(outputs) != len(chosen) or not chosen:
        raise UsageError(f"golden `{golden.name}`: {len(outputs)} outputs for {len(chosen)} cases")
    for case, output in zip(chosen, outputs, strict=True):
        if not np.isfinite(output).all():
            raise UsageError(
                f"golden `{golden.name}`, case `{case.name}`: the output is not finite"
            )
    if golden.kind == "encoder":
        return _compare_embeddings(golden, chosen, outputs)
    return _compare_logits(golden, chosen, outputs)


def _compare_logits(
    golden: Golden, cases: Sequence[GoldenCase], outputs: Sequence[Floats]
) -> DecoderComparison:
    errors: list[npt.NDArray[np.float64]] = []
    agreeing, worst = 0, 0.0
    for case, output in zip(cases, outputs, strict=True):
        assert case.positions is not None and case.top_ids is not None
        assert case.top_logits is not None
        _check_shape(golden, case, output, dimensions=2, length=len(case.ids))
        chosen = output[case.positions]
        found = np.take_along_axis(chosen, case.top_ids.astype(np.int64), axis=1)
        errors.append(np.abs(found.astype(np.float64) - case.top_logits))
        best = chosen.argmax(axis=1)
        for row in np.flatnonzero(best != case.top_ids[:, 0]):
            place = np.flatnonzero(case.top_ids[row] == best[row])
            # A token outside the recorded ones is at least as far behind as the last of them.
            rank = int(place[0]) if len(place) else -1
            worst = max(worst, float(case.top_logits[row, 0] - case.top_logits[row, rank]))
        agreeing += int((best == case.top_ids[:, 0]).sum())
    positions = sum(len(part) for part in errors)
    together = np.concatenate(errors)
    return DecoderComparison(
        positions=positions,
        max_logit_error=float(together.max()),
        mean_logit_error=float(together.mean()),
        top1_agreement=agreeing / positions,
        worst_disagreement=worst,
    )


def _compare_embeddings(
    golden: Golden, cases: Sequence[GoldenCase], outputs: Sequence[Floats]
) -> EncoderComparison:
    cosines, error = [], 0.0
    for case, output in zip(cases, outputs, strict=True):
        assert case.embedding is not None
        _check_shape(golden, case, output, dimensions=1, length=len(case.embedding))
        ours, theirs = output.astype(np.float64), case.embedding.astype(np.float64)
        lengths = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
        if lengths == 0.0:
            raise UsageError(f"golden `{golden.name}`, case `{case.name}`: the embedding is zero")
        cosines.append(float(ours @ theirs) / lengths)
        error = max(error, float(np.abs(ours - theirs).max()))
    return EncoderComparison(embeddings=len(cosines), min_cosine=min(cosines), max_error=error)


def _check_shape(
    golden: Golden, case: GoldenCase, output: Floats, *, dimensions: int, length: int
) -> None:
    largest = -1 if case.top_ids is None else int(case.top_ids.max())
    fits = output.ndim == dimensions and len(output) == length and output.shape[-1] > largest
    if not fits:
        raise UsageError(
            f"golden `{golden.name}`, case `{case.name}`: the output has shape {output.shape}; "
            f"expected {length} rows{' of logits' if dimensions == 2 else ''}"
        )


def _description(path: Path, metadata: dict[str, str] | None) -> dict[str, Any]:
    described: dict[str, Any] = json.loads((metadata or {}).get("golden", "{}"))
    if described.get("format") != FORMAT:
        raise InternalError(f"{path}: no golden of format {FORMAT}. This is a bug.")
    return described


def _read(name: str, described: dict[str, Any], opened: Any) -> Golden:
    held = set(opened.keys())

    def array(key: str) -> Any:
        return opened.get_tensor(key) if key in held else None

    def integers(key: str) -> tuple[int, ...] | None:
        values = array(key)
        return None if values is None else tuple(int(value) for value in values)

    cases = tuple(
        GoldenCase(
            name=case["name"],
            text=case["text"],
            messages=None if case["messages"] is None else tuple(case["messages"]),
            ids=integers(f"{number}.ids") or (),
            positions=array(f"{number}.positions"),
            top_ids=array(f"{number}.top_ids"),
            top_logits=array(f"{number}.top_logits"),
            continuation=integers(f"{number}.continuation"),
            embedding=array(f"{number}.embedding"),
        )
        for number, case in enumerate(described["cases"])
    )
    return Golden(
        name=name,
        checkpoint_sha256=described["checkpoint_sha256"],
        kind=described["kind"],
        source=described["source"],
        cases=cases,
    )
