"""JSON files of a checkpoint, and fields out of them, with errors that name file and field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginewright.errors import CheckpointError


def read_json_object(path: Path, *, hint: str | None = None) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises: CheckpointError if the file is missing, not UTF-8, not JSON or not an object.
    """
    try:
        value = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: the file is missing", hint=hint) from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON: {error}", hint=hint) from error
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path}: holds a JSON {type(value).__name__}; expected an object", hint=hint
        )
    return value


class Fields:
    """Typed look-ups in a configuration; every failure names the file, the field and what was
    expected."""

    def __init__(self, values: Mapping[str, Any], *, source: str, prefix: str = "") -> None:
        self.values = values
        self.source = source
        self.prefix = prefix

    def __contains__(self, name: str) -> bool:
        return self.values.get(self.prefix + name) is not None

    def integer(
        self, name: str, default: int | None = None, *, least: int = 1, most: int = 1 << 31
    ) -> int:
        """A whole number in `least..most`; `default` if absent or null."""
        value = self._value(name, default)
        if type(value) is not int or not least <= value <= most:
            self._refuse(name, value, f"a whole number from {least} to {most}")
        return int(value)

    def number(self, name: str, default: float | None = None, *, least: float = 0.0) -> float:
        """A finite number of at least `least`, within the range of float32."""
        value = self._value(name, default)
        if type(value) not in (int, float) or not least <= value <= 3e38:
            self._refuse(name, value, f"a finite number of at least {least}")
        return float(value)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value(name, default)
        if type(value) is not str:
            self._refuse(name, value, "a text")
        return str(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._value(name, default)
        if type(value) is not bool:
            self._refuse(name, value, "true or false")
        return bool(value)

    def section(self, name: str) -> Fields | None:
        """The object under `name`, or None if absent or null."""
        value = self.values.get(self.prefix + name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._refuse(name, value, "an object")
        return Fields(value, source=f"{self.source}, in `{self.prefix + name}`")

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(self.prefix + name)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(
                f"{self.source}: field `{self.prefix + name}` is missing",
                hint="use the configuration that the checkpoint was published with",
            )
        return value

    def _refuse(self, name: str, value: Any, expected: str) -> None:
        shown = repr(value)
        raise CheckpointError(
            f"{self.source}: field `{self.prefix + name}` is {shown[:80]}; expected {expected}"
        )
