"""What an agent hands in: kernel files and a change, whole and named by what they hold."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginewright.errors import UsageError
from enginewright.variation.agents.change import Change, Use, read_change
from enginewright.variation.agents.redaction import Redactor

FORMAT = "enginewright.submission/1"
MOST_HYPOTHESIS = 1000
"""Characters."""
_INCLUDED = re.compile(r'(#\[path\s*=\s*"|include(?:_str|_bytes)?!\(\s*")([^"]+)(")')
_NAME_LINE = re.compile(r'^(//!\s*name\s*=\s*")([^"]*)(")', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Why it should be better: an opinion, kept apart from every measurement."""

    hypothesis: str
    """A sentence or two."""
    predicted_effect: float
    """Expected speed over the champion's, as a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Files and a change, sealed: kernels carry the digest of their bytes in their names, so that
    another version is another kernel, in plans, caches and libraries alike."""

    kernels: Mapping[str, str]
    """Text by file name; only what the change needs."""
    change: Change
    """With the sealed names."""
    names: Mapping[str, str]
    """The agent's name of each kernel → the sealed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A draft with its claim."""

    agent: str
    """Who: `coder:NAME`, `guest:NAME`."""
    kernels: Mapping[str, str]
    """Text by file name."""
    change: Change
    """What shall be done otherwise."""
    claim: Claim
    """Why."""

    def to_json(self) -> str:
        """Canonical text."""
        held = {
            "format": FORMAT,
            "agent": self.agent,
            "kernels": dict(sorted(self.kernels.items())),
            "change": self.change.model_dump(mode="json"),
            "hypothesis": self.claim.hypothesis,
            "predicted_effect": self.claim.predicted_effect,
        }
        return json.dumps(held, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Submission:
        """Parse what `to_json` wrote. Raises: UsageError if it is none."""
        held: dict[str, Any] = json.loads(text)
        if held.get("format") != FORMAT:
            raise UsageError(f"a submission of format {held.get('format')!r}; expected {FORMAT}")
        return cls(
            agent=held["agent"],
            kernels=held["kernels"],
            change=read_change(json.dumps(held["change"])),
            claim=Claim(hypothesis=held["hypothesis"], predicted_effect=held["predicted_effect"]),
        )


def read_claim(hypothesis: object, predicted_effect: object, redactor: Redactor) -> Claim:
    """A claim out of what a model or a guest gave.

    Raises: UsageError naming the field.
    """
    if not isinstance(hypothesis, str) or not hypothesis.strip():
        raise UsageError("`hypothesis` is empty; expected why it should be faster, in a sentence")
    is_number = isinstance(predicted_effect, int | float) and predicted_effect is not True
    effect = float(predicted_effect) if isinstance(predicted_effect, int | float) else math.nan
    if not is_number or not 0.1 <= effect <= 1000:
        raise UsageError(
            f"`predicted_effect` is {predicted_effect!r}; expected a ratio, 1.05 for 5 % faster"
        )
    text = redactor.clean(" ".join(hypothesis.split()))[:MOST_HYPOTHESIS]
    return Claim(hypothesis=text, predicted_effect=effect)


def seal(own: Mapping[str, str], change: Change) -> Draft:
    """Keep the files that the change's kernels need, and give them names with their digest.

    `own` are the agent's files by name; what else they include must be the library's.

    Raises: UsageError if a kernel's header and file disagree about its name, or nothing is changed.
    """
    if change.is_empty:
        raise UsageError(
            "change.json changes nothing", hint="add the kernel to `uses`, or alter `settings`"
        )
    wanted = [f"{use.kernel}.rs" for use in change.uses if f"{use.kernel}.rs" in own]
    needed: dict[str, str] = {}
    while wanted:
        name = wanted.pop()
        if name in needed:
            continue
        needed[name] = own[name]
        wanted += [match[2] for match in _INCLUDED.finditer(own[name]) if match[2] in own]
    digest = hashlib.sha256()
    for name, text in sorted(needed.items()):
        digest.update(f"{name} {len(text)}\n{text}".encode())
    suffix = digest.hexdigest()[:8]
    names = {name[:-3]: f"{name[:-3]}_{suffix}" for name in needed}
    return Draft(
        kernels={
            f"{names[name[:-3]]}.rs": _renamed(name, text, names) for name, text in needed.items()
        },
        change=change.model_copy(update={"uses": tuple(_use(use, names) for use in change.uses)}),
        names=names,
    )


def _renamed(file: str, text: str, names: Mapping[str, str]) -> str:
    stem = file[:-3]
    stated = _NAME_LINE.search(text)
    if stated is not None and stated[2] != stem:
        raise UsageError(
            f"kernels/{file}: the header says name = {stated[2]!r}",
            hint=f"expected the file's: {stem!r}",
        )
    text = _NAME_LINE.sub(lambda found: f"{found[1]}{names[stem]}{found[3]}", text, count=1)

    def include(found: re.Match[str]) -> str:
        own = names.get(found[2].removesuffix(".rs"))
        return found[0] if own is None else f"{found[1]}{own}.rs{found[3]}"

    return _INCLUDED.sub(include, text)


def _use(use: Use, names: Mapping[str, str]) -> Use:
    return use.model_copy(update={"kernel": names.get(use.kernel, use.kernel)})
