"""graph.json: the same graph gives the same bytes; one that does not hold together is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from enginewright.errors import CheckpointError
from enginewright.model import Graph, build_graph, read_checkpoint
from enginewright.model.op_table import OP_TABLE
from enginewright.model.ops import OPS


@pytest.fixture
def content(tiny_folder) -> dict[str, Any]:
    graph = build_graph(read_checkpoint(tiny_folder / "llama_untied_llama3"))
    return json.loads(graph.to_json())


def test_a_graph_survives_its_text(smollm2, minilm) -> None:
    for model in (smollm2, minilm):
        again = Graph.from_json(model.graph.to_json())
        assert again == model.graph
        assert again.to_json() == model.graph.to_json()
        assert again.sha256 == model.graph.sha256


def test_building_twice_gives_the_same_bytes(smollm2) -> None:
    assert build_graph(smollm2.checkpoint).to_json() == smollm2.graph.to_json()


def test_every_op_kind_has_a_rule_and_a_meaning() -> None:
    assert OP_TABLE.keys() == OPS.keys()


def test_the_graph_of_smollm2_is_the_one_in_the_architecture_page(smollm2) -> None:
    graph = smollm2.graph
    assert graph.weights["blk.0.attn_q.weight"].model_dump() == {
        "file": 0,
        "offset": 33806656,
        "bytes": 207360,
        "dtype": "q4_1",
        "shape": [576, 576],
    }
    assert graph.op("L0.q").inputs == ["L0.norm"]
    assert graph.op("L0.rope_q").attributes["pairing"] == "adjacent"
    assert graph.op("logits").weights == ["token_embd.weight"]
    assert graph.buffers["L0.q"].model_dump() == {"rows": "tokens", "width": 576}
    assert graph.buffers["logits"].rows == "selected"
    assert len(graph.constants["rope.frequencies"].values) == 32


def op(content: dict[str, Any], op_id: str) -> dict[str, Any]:
    return next(entry for entry in content["ops"] if entry["id"] == op_id)


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets `a.b.c`; a first part `op:ID` means that op."""

    def apply(content: dict[str, Any]) -> None:
        first, *parts = path.split("/")
        if first.startswith("op:"):
            place: Any = op(content, first[3:])
        else:
            parts.insert(0, first)
            place = content
        for part in parts[:-1]:
            place = place[int(part) if isinstance(place, list) else part]
        place[int(parts[-1]) if isinstance(place, list) else parts[-1]] = value

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change("format", "enginewright.graph/2"), "field `format`"),
        (change("surprise", 1), "field `surprise`"),
        (change("dimensions/hidden", "64"), r"field `dimensions\.hidden`"),
        (change("files/0/path", "../model.safetensors"), "leaves the checkpoint's folder"),
        (change("files/0/path", "/etc/passwd"), "leaves the checkpoint's folder"),
        (change("weights/lm_head.weight/offset", 1 << 40), "lies outside file"),
        (change("weights/lm_head.weight/offset", -1), "lies outside file"),
        (change("weights/lm_head.weight/bytes", 4), "not its shape times its dtype"),
        (change("weights/lm_head.weight/dtype", "q9"), "has dtype `q9`; supported"),
        (change("weights/lm_head.weight/file", 1), "names file 1 of 1"),
        (change("constants/rope.frequencies/shape", [3]), "its shape is"),
        (change("output", "nothing"), "is written by no op"),
        (change("buffers/lost", {"rows": "tokens", "width": 4}), "buffer `lost` is written by no"),
        (change("op:L0.q/kind", "conv"), "unknown kind `conv`"),
        (change("op:L0.q/inputs", ["L1.norm"]), "before it is written"),
        (change("op:L0.q/inputs", ["nowhere"]), "which is not declared"),
        (change("op:L0.q/inputs", []), "has 0 inputs"),
        (change("op:L0.q/outputs", ["embed"]), "which is written already"),
        (change("op:L0.q/weights", ["nothing"]), "names weight `nothing`"),
        (change("op:L0.q/weights", []), "weights have shapes"),
        (change("op:L0.ffn_add/inputs", ["L0.add", "L0.add"]), "`L0.down`, which no op reads"),
        (change("op:L0.q/id", "L0.k"), "appears twice"),
        (change("op:L0.q/attributes", {"x": 1}), "unknown attribute `x`"),
        (change("op:L0.norm/attributes", {}), "lacks attribute `epsilon`"),
        (change("op:L0.norm/attributes/epsilon", "small"), "of the wrong type"),
        (change("op:L0.rope_q/attributes/pairing", "odd"), "expected adjacent or half"),
        (change("op:L0.rope_q/attributes/heads", 3), "do not fit the input"),
        (change("op:L0.attention/attributes/layer", 1), "before it is written"),
        (change("op:L0.attention/attributes/kv_heads", 3), "do not divide"),
        (change("op:L0.cache/attributes/kv_heads", 4), "inputs are not"),
        (change("op:L0.gate/weights", ["lm_head.weight"]), "weights have shapes"),
        (change("buffers/L0.add/width", 63), "widths differ"),
        (change("buffers/select/rows", "tokens"), "expected tokens into selected"),
    ],
)
def test_a_graph_that_does_not_hold_together_is_refused(content, damage, message) -> None:
    Graph.from_json(json.dumps(content))
    damage(content)
    with pytest.raises(CheckpointError, match=message):
        Graph.from_json(json.dumps(content))


def test_text_that_is_no_graph_is_refused() -> None:
    for text in ("", "{", "[]", "{}", b"\xff"):
        with pytest.raises(CheckpointError, match=r"graph\.json: field"):
            Graph.from_json(text)
