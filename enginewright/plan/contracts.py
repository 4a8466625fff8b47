"""What a kernel promises the planner: the TOML header of its file, checked, and the library of all
kernels.

Constraints are Python expressions over integers and texts. Names: `OP_X` is the constant
`EW_OP{i}_X` of each op that has it (the constraint must hold for every op that has all `OP_` names
it uses); `ROWS` and `SELECTED` are the step's; `PARAM_X` the kernel's parameters; `OPS` the number
of ops.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from enginewright.errors import PlanError
from enginewright.kernel_source import source_digest, source_files
from enginewright.model.dtypes import SUPPORTED
from enginewright.model.graph import Rows
from enginewright.model.op_table import OP_TABLE

StepName = Literal["prefill", "decode", "encode"]
CacheDtype = Literal["f32", "f16"]
CacheLayout = Literal["position_major", "head_major"]
Device = Literal["cpu", "cuda"]

SUFFIXES: dict[Device, str] = {"cpu": ".rs", "cuda": ".cu"}
"""How kernel files end, by the kind of device that they are for."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Parameter(_Record):
    """One knob of a kernel."""

    values: list[int]
    """Values it may take."""
    default: int
    """The value used where a plan says nothing; one of `values`."""
    help: str
    """What it means, with its unit."""


class CacheContract(_Record):
    """Caches that a kernel can read or write."""

    dtypes: list[CacheDtype]
    """Element types."""
    layouts: list[CacheLayout]
    """Orders inside a slot."""


class Contract(_Record):
    """The header of a kernel file."""

    name: str
    """The file's name without its ending."""
    pattern: str
    """Regular expression over op kinds: which groups it computes."""
    matrices: list[str] = []
    """Stored types allowed for the matrices of `linear` and the tables of `embed`."""
    layout: str = "stored"
    """Layout that matrices are packed to; `{dtype}` stands for the stored type."""
    rows: list[Rows] = ["tokens"]
    """What the rows of the group's first op may be."""
    steps: list[StepName]
    """Steps it may serve."""
    requires: list[str] = []
    """Processor features, as /proc/cpuinfo names them."""
    numerics: list[str] = []
    """Approximations that the target must allow."""
    cache: CacheContract | None = None
    """Caches it handles; None for kernels that touch none."""
    constraints: list[str] = []
    """Expressions that must hold; see the module's first lines."""
    parameters: dict[str, Parameter] = {}
    """Knobs, by name."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel of the library."""

    contract: Contract
    """Its header."""
    source: Path
    """Its file."""
    source_sha256: str
    """Digest of the file and of everything it includes."""

    @property
    def name(self) -> str:
        """Name in plans."""
        return self.contract.name

    @cached_property
    def files(self) -> list[Path]:
        """Its file and what it includes."""
        return source_files(self.source)

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern, to be matched in whole against `kinds_text`."""
        return compile_pattern(self.contract.pattern, self.source.name)

    def matches(self, kinds: list[str]) -> bool:
        """Whether the kernel's pattern is exactly these op kinds, in order."""
        return self.expression.fullmatch(kinds_text(kinds)) is not None

    def defaults(self) -> dict[str, int]:
        """Every parameter at its default."""
        return {name: parameter.default for name, parameter in self.contract.parameters.items()}


@dataclass(frozen=True, kw_only=True)
class Library(Mapping[str, Kernel]):
    """Kernels by name."""

    folder: Path
    """Where their files lie."""
    kernels: Mapping[str, Kernel]
    """By name, sorted."""
    device: Device
    """What they run on."""

    def __getitem__(self, name: str) -> Kernel:
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def named(self, name: str) -> Kernel:
        """The kernel called `name`.

        Raises: PlanError with the nearest name if there is none.
        """
        if name in self.kernels:
            return self.kernels[name]
        raise PlanError(
            f"{self.folder}: there is no kernel `{name}`", hint=nearest(name, list(self.kernels))
        )


def nearest(name: str, known: list[str]) -> str:
    """A hint that names what was probably meant."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"known: {', '.join(sorted(known))}"


def kinds_text(kinds: list[str]) -> str:
    """Op kinds as the text that compiled patterns are matched against."""
    return "".join(f"{kind};" for kind in kinds)


def compile_pattern(pattern: str, where: str) -> re.Pattern[str]:
    """A contract's pattern as a regular expression over `kinds_text`.

    Raises: PlanError if it names an unknown kind or is no expression.
    """
    if not re.fullmatch(r"[a-z0-9_ |()?*+{},]+", pattern):
        raise PlanError(
            f"{where}: pattern {pattern!r}: only op kinds, spaces and | ( ) ? * + {{n,m}} may "
            "stand there"
        )
    for kind in re.findall(r"[a-z][a-z0-9_]*", pattern):
        if kind not in OP_TABLE:
            raise PlanError(
                f"{where}: pattern names the unknown op kind `{kind}`",
                hint=nearest(kind, list(OP_TABLE)),
            )
    expression = re.sub(r"[a-z][a-z0-9_]*", lambda kind: f"(?:{kind[0]};)", pattern)
    try:
        return re.compile(expression.replace(" ", ""))
    except re.error as error:
        raise PlanError(
            f"{where}: pattern {pattern!r} is no regular expression: {error}"
        ) from error


def read_contract(source: Path) -> Contract | None:
    """The contract in a kernel file's header; None for a file that is only included.

    Raises: PlanError naming file and field.
    """
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{source}: cannot be read: {error}") from error
    header = [
        line.removeprefix("//!").removeprefix(" ")
        for line in text.splitlines()
        if line.startswith("//!")
    ]
    if "```toml" not in header:
        return None
    start = header.index("```toml") + 1
    if "```" not in header[start:]:
        raise PlanError(f"{source.name}: the contract has no closing fence")
    lines = header[start : start + header[start:].index("```")]
    try:
        contract = Contract.model_validate(tomllib.loads("\n".join(lines)))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{source.name}: the contract is no TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise PlanError(
            f"{source.name}: contract field `{field}`: {first['msg']}",
            hint=nearest(field, list(Contract.model_fields)),
        ) from error
    _check_contract(contract, source)
    return contract


def _check_contract(contract: Contract, source: Path) -> None:
    if contract.name != source.stem:
        raise PlanError(
            f"{source.name}: name is `{contract.name}`; expected the file's, `{source.stem}`"
        )
    for dtype in contract.matrices:
        if dtype not in SUPPORTED:
            raise PlanError(
                f"{source.name}: matrices names the unknown type `{dtype}`",
                hint=nearest(dtype, list(SUPPORTED)),
            )
    for name, parameter in contract.parameters.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            raise PlanError(f"{source.name}: parameter `{name}` is not in upper case")
        if parameter.default not in parameter.values or min(parameter.values) < 0:
            raise PlanError(
                f"{source.name}: parameter {name}: default {parameter.default} and values "
                f"{parameter.values}; expected whole numbers from 0, the default among them"
            )
    compile_pattern(contract.pattern, source.name)


def load_library(folder: Path) -> Library:
    """Every kernel in `folder`, by name. A folder holds kernels for one kind of device.

    Raises: PlanError if the folder holds none or a contract is wrong.
    """
    kernels: dict[str, Kernel] = {}
    device: Device = "cuda" if any(folder.glob("*.cu")) else "cpu"
    for source in sorted(folder.glob(f"*{SUFFIXES[device]}")):
        contract = read_contract(source)
        if contract is not None:
            kernels[contract.name] = Kernel(
                contract=contract, source=source, source_sha256=source_digest(source)
            )
    if not kernels:
        raise PlanError(
            f"{folder}: holds no kernels", hint="ENGINEWRIGHT_KERNELS names the kernel library"
        )
    return Library(folder=folder, kernels=kernels, device=device)
