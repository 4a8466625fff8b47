"""docs/target.md is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from enginewright.target import METRICS, json_schema, load_target

PAGE = (Path(__file__).parents[2] / "docs/target.md").read_text(encoding="utf-8")


def keys_of(schema: dict[str, Any]) -> set[str]:
    records = [schema, *schema["$defs"].values()]
    return {key for record in records for key in record["properties"]}


def test_the_example_of_the_page_is_a_target(tmp_path: Path) -> None:
    example, coder, others = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "target.toml"
    path.write_text(example + coder + others)
    target = load_target(path).target
    assert target.baseline[0].name == "llama.cpp"
    assert [agent.title for agent in target.agent] == ["coder", "local", "guest"]
    assert len(coder.strip().splitlines()) == 3


def test_the_page_explains_every_key_and_every_metric() -> None:
    tables = {"model", "hardware", "workload", "scenario", "accept", "numerics", "baseline"}
    tables |= {"agent"}
    names = keys_of(json_schema()) - tables - {"budget"} | METRICS.keys()
    assert len(names) > 30
    missing = sorted(name for name in names if f"`{name}`" not in PAGE)
    assert missing == []


def test_every_field_of_the_schema_has_a_description() -> None:
    schema = json_schema()
    for record in [schema, *schema["$defs"].values()]:
        for key, field in record["properties"].items():
            assert field.get("description"), f"{record['title']}.{key}"
