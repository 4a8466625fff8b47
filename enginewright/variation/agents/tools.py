"""What agents may use: the same tools for coders and guests, with a version of their own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Protocol

from enginewright.variation.agents.exchange import Tool


def _schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


_EDITS = {
    "type": "array",
    "minItems": 1,
    "items": _schema(
        ("search", "replace"),
        search=_text("Text that stands in the file exactly once, to the character."),
        replace=_text("What shall stand there instead."),
    ),
}

TOOLS = (
    Tool(
        name="read_plan",
        description="The champion's plan: kinds of groups by step, with ops, kernel, parameters, "
        "and how many groups are alike. Lists the op ids of one group of each kind.",
        parameters=_schema(),
    ),
    Tool(
        name="read_profile",
        description="Where the champion's time goes: nanoseconds by kind of group for the "
        "workload's steps, beside the floor that memory bandwidth and arithmetic set.",
        parameters=_schema(),
    ),
    Tool(
        name="read_lessons",
        description="What was tried in this run and what the judge said, and what won in earlier "
        "runs on this hardware.",
        parameters=_schema(),
    ),
    Tool(
        name="list_files",
        description="Files of your workspace. Those marked `yours` may be written.",
        parameters=_schema(),
    ),
    Tool(
        name="read_file",
        description="Lines of a file.",
        parameters=_schema(
            ("path",),
            path=_text("For example kernels/abi.rs."),
            first_line=_whole("From 1; default 1."),
            last_line=_whole("Inclusive; default 400 lines on."),
        ),
    ),
    Tool(
        name="find_text",
        description="Lines of the workspace's files in which a text stands, with path and number.",
        parameters=_schema(("text",), text=_text("Taken literally.")),
    ),
    Tool(
        name="write_file",
        description="Write one of your files, whole: kernels/NAME.rs with a new name, or "
        "change.json.",
        parameters=_schema(
            ("path", "content"),
            path=_text("For example kernels/silu_mul_rows.rs."),
            content=_text("The whole file."),
        ),
    ),
    Tool(
        name="edit_file",
        description="Change one of your files by search/replace blocks, all or none.",
        parameters=_schema(("path", "edits"), path=_text("One of your files."), edits=_EDITS),
    ),
    Tool(
        name="build",
        description="Apply change.json to the champion's plan and compile every kernel that is "
        "new. Gives the compiler's messages.",
        parameters=_schema(),
    ),
    Tool(
        name="check",
        description="Build, then check each new kernel object as the judge will: against the "
        "NumPy semantics, in a sandbox, on random inputs.",
        parameters=_schema(),
    ),
    Tool(
        name="time",
        description="Build, then time the workload's steps interleaved with the champion's. A "
        "quick look, not a verdict.",
        parameters=_schema(),
    ),
    Tool(
        name="submit",
        description="Hand in your files and change.json as a candidate. The judge builds and "
        "checks it, and tries it against the champion.",
        parameters=_schema(
            ("hypothesis", "predicted_effect"),
            hypothesis=_text("Why it is faster, in a sentence or two."),
            predicted_effect={
                "type": "number",
                "description": "Expected speed over the champion's: 1.05 for 5 % faster.",
            },
        ),
    ),
)
"""Tools of every agent."""

GIVE_UP = Tool(
    name="give_up",
    description="End without a submission, when nothing that you can think of would be faster.",
    parameters=_schema(("reason",), reason=_text("Why.")),
)
"""Coders only: a guest just leaves."""

CODER_TOOLS = (*TOOLS, GIVE_UP)


def tools_version(tools: tuple[Tool, ...] = CODER_TOOLS) -> str:
    """Digest of names, descriptions and schemas: what a model was told."""
    told = [[tool.name, tool.description, tool.parameters] for tool in tools]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a use of a tool gave."""

    text: str
    """For the model."""
    is_error: bool = False
    """Whether it could not be done."""
    ends: bool = False
    """Whether the conversation is over: something was handed in, or given up."""


def wrong_arguments(tools: tuple[Tool, ...], name: str, arguments: dict[str, Any]) -> str | None:
    """What is wrong with a call, by the tool's schema; None if nothing is."""
    known = {tool.name: tool for tool in tools}
    if name not in known:
        return f"there is no tool {name!r}; there are {', '.join(known)}"
    schema = known[name].parameters
    for key in schema["required"]:
        if key not in arguments:
            return f"{name}: `{key}` is missing"
    for key, value in arguments.items():
        if key not in schema["properties"]:
            expected = ", ".join(schema["properties"]) or "none"
            return f"{name}: unknown argument `{key}`; it takes {expected}"
        problem = _wrong_value(schema["properties"][key], value)
        if problem is not None:
            return f"{name}: `{key}` {problem}"
    return None


def _wrong_value(schema: dict[str, Any], value: object) -> str | None:
    types: dict[str, tuple[type, ...]] = {
        "string": (str,), "integer": (int,), "number": (int, float), "array": (list,),
        "object": (dict,),
    }  # fmt: skip
    if not isinstance(value, types[schema["type"]]) or isinstance(value, bool):
        return f"is {str(value)[:80]!r}; expected a value of type {schema['type']}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            return "is empty"
        problems = (_wrong_item(schema["items"], item) for item in value)
        return next((problem for problem in problems if problem is not None), None)
    return None


def _wrong_item(schema: dict[str, Any], item: object) -> str | None:
    if not isinstance(item, dict):
        return f"holds {str(item)[:80]!r}; expected objects"
    for key in schema["required"]:
        if not isinstance(item.get(key), str):
            return f"holds an object without the text `{key}`"
    unknown = sorted(set(item) - set(schema["properties"]))
    return f"holds an object with the unknown key `{unknown[0]}`" if unknown else None


class Desk(Protocol):
    """Does what tools say, within one workspace. It judges every argument itself: who asks, and
    what they were told, gives no rights."""

    def use(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Carry out one tool. What is wrong with the call is a result, not an exception."""
