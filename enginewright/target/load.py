"""Read a target file, or say what is wrong with it: file, line, field, value, expectation, hint."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from enginewright.errors import TargetError
from enginewright.target.check_agents import check_agents
from enginewright.target.criteria import check_criteria
from enginewright.target.lines import Places
from enginewright.target.records import LoadedTarget, Target


def load_target(path: Path) -> LoadedTarget:
    """Parse and check a target file.

    Raises: TargetError naming the file, the line where it can be found, the field and its value.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TargetError(
            f"cannot read the target {path}: {error.strerror}",
            hint="`enginewright init CHECKPOINT` writes one",
        ) from error
    try:
        text = content.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise TargetError(f"{path}: not UTF-8 at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{path}: not TOML: {error}", hint="see docs/target.md") from error
    try:
        target = Target.model_validate(_tuples(document))
    except ValidationError as error:
        raise _explain(path, text, error) from error
    places = Places(str(path), text)
    check_criteria(target, places)
    check_agents(target, places)
    target = _with_recordings(_with_place(target, path.parent), path.parent)
    return LoadedTarget(target=target, source=path, sha256=hashlib.sha256(content).hexdigest())


def _with_place(target: Target, folder: Path) -> Target:
    """A relative checkpoint lies beside the target file, if it is there; else where the command
    runs."""
    checkpoint = target.model.checkpoint
    beside = folder / checkpoint
    if checkpoint.startswith("package:") or not beside.exists():
        return target
    model = target.model.model_copy(update={"checkpoint": str(beside)})
    return target.model_copy(update={"model": model})


def _with_recordings(target: Target, folder: Path) -> Target:
    """Recordings that lie beside the target file are found from anywhere."""
    agents = tuple(
        agent.model_copy(update={"recording": str(folder / agent.recording)})
        if agent.recording is not None and (folder / agent.recording).exists()
        else agent
        for agent in target.agent
    )
    return target.model_copy(update={"agent": agents})


def json_schema() -> dict[str, Any]:
    """The JSON schema of a target file."""
    return Target.model_json_schema()


def _tuples(value: Any) -> Any:
    """TOML arrays as tuples: the records are frozen and strict."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return value


def _explain(path: Path, text: str, error: ValidationError) -> TargetError:
    # A misspelt key is also a missing one: the misspelling is what the user can see.
    errors = sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    first = errors[0]
    parts = [part for part in first["loc"] if isinstance(part, str) and part not in _UNION_TAGS]
    field = ".".join(str(part) for part in first["loc"] if part not in _UNION_TAGS)
    key = parts[-1] if parts else ""
    place = Places(str(path), text).at(
        tuple(part for part in first["loc"] if part not in _UNION_TAGS)
    )
    if first["type"] == "extra_forbidden":
        known = _fields_at(first["loc"][:-1])
        nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"did you mean `{nearest[0]}`?" if nearest else f"known: {', '.join(known)}"
        return TargetError(f"{place}: unknown key `{field}`", hint=hint)
    if first["type"] == "missing":
        return TargetError(f"{path}: `{field}` is missing", hint="see docs/target.md")
    return TargetError(
        f"{place}: `{field}` is {first['input']!r}; {first['msg'][0].lower()}{first['msg'][1:]}",
        hint="see docs/target.md, or `enginewright target schema`",
    )


_UNION_TAGS = frozenset({"literal['auto']", "constrained-int", "int", "tuple[str, ...]"})


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    """The fields of the record at a place in the document."""
    record: type[BaseModel] = Target
    for part in location:
        if isinstance(part, str) and part in record.model_fields:
            inner = _record_in(record.model_fields[part].annotation)
            if inner is not None:
                record = inner
    return list(record.model_fields)


def _record_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, Union, UnionType):
        for argument in get_args(annotation):
            found = _record_in(argument)
            if found is not None:
                return found
    return None
