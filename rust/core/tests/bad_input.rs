//! Graphs, plans and checkpoints that lie: each ends in an error that names the field.

use enginewright_core::error::EngineError;
use enginewright_core::graph::Graph;
use enginewright_core::plan::Plan;
use enginewright_core::weights::Checkpoint;
use serde_json::{Value, json};

fn graph() -> Value {
    json!({
        "format": "enginewright.graph/1", "name": "tiny", "family": "llama", "kind": "decoder",
        "dimensions": {"hidden": 8, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 8, "feed_forward": 8,
                       "vocabulary": 16, "context": 64},
        "files": [{"path": "tiny.bin", "bytes": 1024, "sha256": ""}],
        "weights": {"table": {"file": 0, "offset": 0, "bytes": 512, "dtype": "f32", "shape": [16, 8]},
                    "head": {"file": 0, "offset": 512, "bytes": 512, "dtype": "f32", "shape": [16, 8]}},
        "constants": {"frequencies": {"shape": [4], "values": [1.0, 0.1, 0.01, 0.001]}},
        "buffers": {"e": {"rows": "tokens", "width": 8}, "x": {"rows": "tokens", "width": 8},
                    "a": {"rows": "tokens", "width": 8}, "s": {"rows": "selected", "width": 8},
                    "logits": {"rows": "selected", "width": 16}},
        "ops": [
            {"id": "embed", "kind": "embed", "inputs": [], "outputs": ["e"], "weights": ["table"],
             "attributes": {"tables": ["token"], "position_offset": 0}},
            {"id": "rope", "kind": "rope", "inputs": ["e"], "outputs": ["x"], "weights": ["frequencies"],
             "attributes": {"heads": 1, "head_dim": 8, "rotary": 8, "pairing": "half", "magnitude": 1.0}},
            {"id": "write", "kind": "kv_write", "inputs": ["x", "x"], "outputs": [],
             "attributes": {"layer": 0, "kv_heads": 1, "head_dim": 8}},
            {"id": "attend", "kind": "attention", "inputs": ["x"], "outputs": ["a"],
             "attributes": {"layer": 0, "heads": 1, "kv_heads": 1, "head_dim": 8, "scale": 0.5, "window": 0}},
            {"id": "select", "kind": "select_rows", "inputs": ["a"], "outputs": ["s"]},
            {"id": "head", "kind": "linear", "inputs": ["s"], "outputs": ["logits"], "weights": ["head"]}
        ],
        "output": "logits"
    })
}

fn plan(hash: &str) -> Value {
    let groups = json!([
        {"id": "g0", "ops": ["embed", "rope"], "kernel": "a", "layouts": ["stored", "stored"], "object": "aa"},
        {"id": "g1", "ops": ["write", "attend"], "kernel": "b", "layouts": [], "object": "bb"},
        {"id": "g2", "ops": ["select", "head"], "kernel": "c", "layouts": ["f32.x16"], "object": "cc"}
    ]);
    json!({
        "format": "enginewright.plan/1", "graph": hash, "threads": 2,
        "pool": {"spin_microseconds": 200, "pin": true}, "memory": {"huge_pages": false},
        "cache": {"dtype": "f32", "layout": "position_major", "capacity": 64, "slots": 2},
        "requires": [], "numerics": [],
        "steps": {"prefill": {"rows": 8, "selected": 2, "groups": groups},
                  "decode": {"rows": 2, "selected": 2, "groups": groups}}
    })
}

/// `value` with the part at `pointer` replaced.
fn with(mut value: Value, pointer: &str, part: Value) -> String {
    if let Some(place) = value.pointer_mut(pointer) {
        *place = part;
    } else {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[key] = part;
    }
    value.to_string()
}

fn good_graph() -> Graph {
    Graph::from_text("graph.json", &graph().to_string()).unwrap()
}

#[test]
fn a_true_graph_and_its_plan_are_taken() {
    let graph = good_graph();
    assert_eq!(graph.sha256.len(), 64);
    let plan = Plan::from_text("plan.json", &plan(&graph.sha256).to_string(), &graph).unwrap();
    assert_eq!(plan.context(&graph), 64);
}

#[test]
fn every_lie_of_a_graph_is_refused_by_name() {
    let cases = [
        ("/format", json!("enginewright.graph/9"), "format"),
        ("/surprise", json!(1), "surprise"),
        ("/kind", json!("oracle"), "oracle"),
        ("/dimensions/vocabulary", json!(0), "dimensions.vocabulary"),
        ("/dimensions/vocabulary", json!(17), "vocabulary"),
        ("/dimensions/context", json!(-1), "column"),
        ("/files/0/path", json!("../tiny.bin"), "files[0].path"),
        ("/files/0/path", json!("/etc/passwd"), "files[0].path"),
        ("/files/0/path", json!(""), "files[0].path"),
        ("/weights/head/file", json!(1), "weights.head.file"),
        ("/weights/head/offset", json!(513), "weights.head.offset"),
        ("/weights/head/offset", json!(u64::MAX), "weights.head.offset"),
        ("/weights/head/bytes", json!(511), "weights.head.bytes"),
        ("/weights/head/dtype", json!("q4_1"), "weights.head.shape"),
        ("/weights/head/dtype", json!("q9_9"), "q9_9"),
        ("/weights/head/shape", json!([]), "weights.head.shape"),
        ("/weights/head/shape", json!([0, 8]), "weights.head.shape"),
        ("/weights/head/shape", json!([u64::MAX, 8]), "weights.head.shape"),
        ("/constants/frequencies/values", json!([1.0]), "constants.frequencies.values"),
        ("/constants/frequencies/values/0", json!(1e300), "constants.frequencies"),
        ("/buffers/x/width", json!(0), "buffers.x.width"),
        ("/buffers/x/width", json!(9), "ops.rope"),
        ("/ops/0/attributes/tables", json!(["token", "type"]), "ops.embed"),
        ("/ops/0/attributes/tables", json!(["tokens"]), "tokens"),
        ("/ops/1/attributes/rotary", json!(7), "rotary 7"),
        ("/ops/1/attributes/pairing", json!("none"), "op `rope`"),
        ("/ops/1/attributes/extra", json!(1), "extra"),
        ("/ops/1/id", json!("embed"), "ops[1].id"),
        ("/ops/1/inputs", json!(["nowhere"]), "nowhere"),
        ("/ops/1/outputs", json!(["e"]), "no other op writes"),
        ("/ops/1/weights", json!([]), "ops.rope"),
        ("/ops/4/inputs", json!(["x"]), "ops.attend.outputs"),
        ("/ops/1/kind", json!("telepathy"), "telepathy"),
        ("/ops/2/attributes/layer", json!(1), "ops.write.attributes.layer"),
        ("/ops/3/attributes/kv_heads", json!(0), "ops.attend"),
        ("/ops/5/inputs", json!(["s", "s"]), "2 inputs"),
        ("/ops/5/weights", json!(["table", "head"]), "ops.head"),
        ("/output", json!("a"), "output"),
        ("/output", json!("nowhere"), "output"),
    ];
    for (pointer, part, expected) in cases {
        let text = with(graph(), pointer, part.clone());
        let error = Graph::from_text("graph.json", &text).err();
        let error = error.unwrap_or_else(|| panic!("{pointer} = {part} was believed")).to_string();
        assert!(error.contains(expected), "{pointer} = {part}: {error}");
        assert!(error.contains("hint:"), "{error}");
    }
}

#[test]
fn every_lie_of_a_plan_is_refused_by_name() {
    let graph = good_graph();
    let cases = [
        ("/format", json!("enginewright.plan/2"), "format"),
        ("/graph", json!("0000"), "graph"),
        ("/threads", json!(0), "threads"),
        ("/threads", json!(100_000), "threads"),
        ("/pool/spin_microseconds", json!(u64::MAX), "spin_microseconds"),
        ("/cache/capacity", json!(0), "cache.capacity"),
        ("/cache/slots", json!(1u64 << 40), "cache.slots"),
        ("/cache/dtype", json!("f8"), "f8"),
        ("/steps/decode/rows", json!(0), "steps.decode.rows"),
        ("/steps/encode", json!({"rows": 1, "selected": 1, "groups": []}), "steps"),
        ("/steps/decode/groups/0/id", json!("g1"), "id"),
        ("/steps/decode/groups/0/ops", json!([]), "ops"),
        ("/steps/decode/groups/0/ops", json!(["rope", "embed"]), "before they are read"),
        ("/steps/decode/groups/0/ops", json!(["embed", "embed"]), "no other group computes"),
        ("/steps/decode/groups/0/ops", json!(["embed", "dream"]), "dream"),
        ("/steps/decode/groups/0/layouts", json!(["stored"]), "layouts"),
        ("/steps/decode/groups/0/object", json!("../../evil"), "object"),
        ("/steps/decode/groups/1/ops", json!(["attend", "write"]), "kv_write"),
        ("/steps/decode/groups", json!([]), "without embed"),
    ];
    for (pointer, part, expected) in cases {
        let text = with(plan(&graph.sha256), pointer, part.clone());
        let error = Plan::from_text("plan.json", &text, &graph).err();
        let error = error.unwrap_or_else(|| panic!("{pointer} = {part} was believed")).to_string();
        assert!(error.contains(expected), "{pointer} = {part}: {error}");
    }
}

#[test]
fn text_that_was_cut_anywhere_is_refused_without_a_panic() {
    let text = graph().to_string();
    for length in (0..text.len()).step_by(7) {
        assert!(matches!(Graph::from_text("g", &text[..length]), Err(EngineError::Invalid { .. })));
    }
}

#[test]
fn a_checkpoint_that_is_missing_or_cut_is_refused_by_file() {
    let graph = good_graph();
    let folder = std::env::temp_dir().join(format!("enginewright-checkpoint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let error = Checkpoint::open(&folder, &graph).err().unwrap().to_string();
    assert!(error.contains("tiny.bin") && error.contains("--checkpoint"), "{error}");
    std::fs::write(folder.join("tiny.bin"), [0; 1000]).unwrap();
    let error = Checkpoint::open(&folder, &graph).err().unwrap().to_string();
    assert!(error.contains("1000") && error.contains("1024"), "{error}");
    std::fs::write(folder.join("tiny.bin"), [7; 1024]).unwrap();
    let checkpoint = Checkpoint::open(&folder, &graph).unwrap();
    checkpoint.release(&graph.weights["head"]);
    assert_eq!(checkpoint.bytes(&graph.weights["head"]), [7; 512]);
    std::fs::remove_dir_all(&folder).unwrap();
}
