"""Rotary frequencies and their scalings, from either kind of configuration.

Source: `modeling_rope_utils.py` of transformers (linear, llama3, yarn), whose figures the
goldens hold; frequencies are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enginewright.errors import CheckpointError
from enginewright.model.checkpoint import Checkpoint
from enginewright.model.read_json import Fields

LEAST_BASE = 1.001
"""Below, the frequencies would rise."""

KNOWN_SCALINGS = ("default", "none", "linear", "llama3", "yarn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """How positions turn the heads."""

    frequencies: npt.NDArray[np.float32]
    """Radians a position, `[rotary / 2]`."""
    magnitude: float
    """Factor on cosine and sine."""


def plain_frequencies(base: float, rotary: int) -> npt.NDArray[np.float64]:
    """`base ** (-2i / rotary)` for i in 0..rotary/2."""
    return base ** (-np.arange(0, rotary, 2, dtype=np.float64) / rotary)


def rope_from_config(config: Fields, *, rotary: int) -> Rope:
    """Rotary part of a Hugging Face config.json: `rope_theta` with `rope_scaling` (before v5), or
    `rope_parameters`.

    Raises: CheckpointError for a scaling that is not known, or one that lacks a field.
    """
    section = config.section("rope_parameters") or config.section("rope_scaling")
    if section is not None and "rope_theta" in section:
        base = section.number("rope_theta", least=LEAST_BASE)
    else:
        base = config.number("rope_theta", 10000.0, least=LEAST_BASE)
    frequencies = plain_frequencies(base, rotary)
    magnitude = 1.0
    if section is not None:
        kind = section.text("rope_type", section.text("type", "default"))
        original = section.integer(
            "original_max_position_embeddings", config.integer("max_position_embeddings", 2048)
        )
        if kind == "linear":
            frequencies = frequencies / section.number("factor", least=1e-6)
        elif kind == "llama3":
            frequencies = _llama3(frequencies, section, original)
        elif kind == "yarn":
            frequencies, magnitude = _yarn(section, base, rotary, original)
        elif kind not in KNOWN_SCALINGS:
            raise _unknown_scaling(section.source, kind)
    return Rope(frequencies=frequencies.astype(np.float32), magnitude=magnitude)


def rope_from_gguf(checkpoint: Checkpoint, fields: Fields, *, rotary: int) -> Rope:
    """Rotary part of GGUF metadata: `rope.freq_base`, `rope.scaling.*` and the optional tensor
    `rope_freqs.weight`.

    Raises: CheckpointError for a scaling that is not known, or one that lacks a field.
    """
    base = fields.number("rope.freq_base", 10000.0, least=LEAST_BASE)
    frequencies = plain_frequencies(base, rotary)
    magnitude = 1.0
    kind = fields.text("rope.scaling.type", "linear" if "rope.scale_linear" in fields else "none")
    if kind == "linear":
        factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1.0))
        frequencies = frequencies / (factor or 1.0)
    elif kind == "yarn":
        scaling = Fields(
            fields.values, source=fields.source, prefix=fields.prefix + "rope.scaling."
        )
        original = scaling.integer("original_context_length", fields.integer("context_length"))
        frequencies, magnitude = _yarn(scaling, base, rotary, original)
        # llama.cpp multiplies where transformers replaces.
        magnitude *= scaling.number("attn_factor", 1.0)
    elif kind not in KNOWN_SCALINGS:
        raise _unknown_scaling(fields.source, kind)
    if "rope_freqs.weight" in checkpoint.tensors:
        tensor = checkpoint.tensor("rope_freqs.weight")
        if tensor.shape != (rotary // 2,):
            raise CheckpointError(
                f"{checkpoint.described_as}: tensor `rope_freqs.weight` has shape "
                f"{list(tensor.shape)}; "
                f"expected [{rotary // 2}]"
            )
        # The converter stores llama3 scaling as divisors of the frequencies.
        frequencies = frequencies / checkpoint.dequantise(tensor)
    return Rope(frequencies=frequencies.astype(np.float32), magnitude=magnitude)


def _llama3(
    frequencies: npt.NDArray[np.float64], section: Fields, original: int
) -> npt.NDArray[np.float64]:
    factor = section.number("factor", least=1e-6)
    low = section.number("low_freq_factor")
    high = section.number("high_freq_factor")
    if high <= low:
        raise CheckpointError(
            f"{section.source}: high_freq_factor {high} must be above low_freq_factor {low}"
        )
    wavelengths = 2 * math.pi / frequencies
    share = np.clip((original / wavelengths - low) / (high - low), 0.0, 1.0)
    blended: npt.NDArray[np.float64] = (1 - share) * frequencies / factor + share * frequencies
    return blended


def _yarn(
    section: Fields, base: float, rotary: int, original: int
) -> tuple[npt.NDArray[np.float64], float]:
    factor = section.number("factor", least=1e-6)
    magnitude = _yarn_magnitude(section, factor)
    fast = section.number("beta_fast", 32.0) or 32.0
    slow = section.number("beta_slow", 1.0) or 1.0

    def dimension_of(rotations: float) -> float:
        return rotary * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dimension_of(fast), dimension_of(slow)
    if section.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(rotary // 2) - low) / (high - low), 0.0, 1.0)
    plain = plain_frequencies(base, rotary)
    blended: npt.NDArray[np.float64] = plain / factor * ramp + plain * (1 - ramp)
    return blended, magnitude


def _yarn_magnitude(section: Fields, factor: float) -> float:
    def of(scale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    if "attention_factor" in section:
        return section.number("attention_factor")
    if "mscale" in section and "mscale_all_dim" in section:
        scale, every = section.number("mscale"), section.number("mscale_all_dim")
        if scale and every:
            return of(scale) / of(every)
    return of(1.0)


def _unknown_scaling(source: str, kind: str) -> CheckpointError:
    return CheckpointError(
        f"{source}: rope scaling `{kind}` is not supported; known: {', '.join(KNOWN_SCALINGS)}",
        hint="docs/adding-a-model.md says how to add one",
    )
