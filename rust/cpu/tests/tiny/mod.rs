//! A decoder of one layer whose kernels are plain functions of this file: 8 wide, 16 tokens, one head.
#![allow(dead_code)]

use enginewright_core::error::EngineError;
use enginewright_core::executor::{Batch, Executor, StepKind};
use enginewright_core::graph::Graph;
use enginewright_core::plan::Plan;
use enginewright_core::weights::Checkpoint;
use enginewright_cpu::{CpuExecutor, KernelSource, KernelTable, Options, abi};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const WIDTH: usize = 8;
pub const VOCABULARY: usize = 16;
/// The table starts at an odd place of the file, so that it cannot be read with aligned vectors.
const TABLE_OFFSET: usize = 4;
const MATRIX_BYTES: usize = VOCABULARY * WIDTH * 4;

pub const GRAPH: &str = r#"{
  "format": "enginewright.graph/1", "name": "tiny", "family": "llama", "kind": "decoder",
  "dimensions": {"hidden": 8, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 8, "feed_forward": 8,
                 "vocabulary": 16, "context": 64},
  "files": [{"path": "tiny.bin", "bytes": 1028, "sha256": ""}],
  "weights": {"table": {"file": 0, "offset": 4, "bytes": 512, "dtype": "f32", "shape": [16, 8]},
              "head": {"file": 0, "offset": 516, "bytes": 512, "dtype": "f32", "shape": [16, 8]}},
  "constants": {},
  "buffers": {"x": {"rows": "tokens", "width": 8}, "a": {"rows": "tokens", "width": 8},
              "s": {"rows": "selected", "width": 8}, "logits": {"rows": "selected", "width": 16}},
  "ops": [
    {"id": "embed", "kind": "embed", "inputs": [], "outputs": ["x"], "weights": ["table"],
     "attributes": {"tables": ["token"], "position_offset": 0}},
    {"id": "write", "kind": "kv_write", "inputs": ["x", "x"], "outputs": [], "weights": [],
     "attributes": {"layer": 0, "kv_heads": 1, "head_dim": 8}},
    {"id": "attend", "kind": "attention", "inputs": ["x"], "outputs": ["a"], "weights": [],
     "attributes": {"layer": 0, "heads": 1, "kv_heads": 1, "head_dim": 8, "scale": 0.5, "window": 0}},
    {"id": "select", "kind": "select_rows", "inputs": ["a"], "outputs": ["s"], "weights": [], "attributes": {}},
    {"id": "head", "kind": "linear", "inputs": ["s"], "outputs": ["logits"], "weights": ["head"], "attributes": {}}
  ],
  "output": "logits"
}"#;

const PLAN: &str = r#"{
  "format": "enginewright.plan/1", "graph": "HASH", "threads": 2,
  "pool": {"spin_microseconds": 50, "pin": false}, "memory": {"huge_pages": false},
  "cache": {"dtype": "f32", "layout": "position_major", "capacity": 40, "slots": 3},
  "requires": [], "numerics": [],
  "steps": {"prefill": {"rows": 16, "selected": 16, "groups": GROUPS},
            "decode": {"rows": 3, "selected": 3, "groups": GROUPS}}
}"#;

const GROUPS: &str = r#"[
  {"id": "g0", "ops": ["embed"], "kernel": "embed", "layouts": ["stored"], "object": "embed"},
  {"id": "g1", "ops": ["write", "attend"], "kernel": "attend", "layouts": [], "object": "attend"},
  {"id": "g2", "ops": ["select", "head"], "kernel": "head", "layouts": ["transposed"], "object": "head"}
]"#;

/// The tiny plan, for the tiny graph.
pub fn plan_text(graph: &Graph) -> String {
    PLAN.replace("GROUPS", GROUPS).replace("HASH", &graph.sha256)
}

/// The kernels that the tiny plan names.
pub fn kernels() -> Vec<(&'static str, KernelTable)> {
    let plain = KernelTable {
        abi: version,
        phases: one,
        scratch: none,
        packed_bytes: unpacked,
        pack: no_pack,
        run: embed,
    };
    vec![
        ("embed", plain),
        ("attend", KernelTable { phases: two, run: attend, ..plain }),
        ("head", KernelTable { packed_bytes: matrix, pack: transpose, run: head, ..plain }),
    ]
}

/// A checkpoint folder of its own, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("enginewright-tiny-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let mut bytes = vec![0u8; TABLE_OFFSET];
        for value in table().iter().chain(&matrix_values()) {
            bytes.extend(value.to_le_bytes());
        }
        std::fs::write(path.join("tiny.bin"), bytes).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn table() -> Vec<f32> {
    (0..VOCABULARY * WIDTH).map(|i| ((i * 37 % 23) as f32 - 11.0) / 8.0).collect()
}

pub fn matrix_values() -> Vec<f32> {
    (0..VOCABULARY * WIDTH).map(|i| ((i * 53 % 29) as f32 - 14.0) / 16.0).collect()
}

/// The tiny engine with other kernels or another plan than the right ones.
pub fn load(
    kernels: &[(&str, KernelTable)],
    change: impl Fn(String) -> String,
    threads: usize,
) -> Result<CpuExecutor, EngineError> {
    let folder = Folder::new();
    let graph = Graph::from_text("graph.json", GRAPH)?;
    let plan = Plan::from_text("plan.json", &change(plan_text(&graph)), &graph)?;
    let checkpoint = Checkpoint::open(&folder.0, &graph)?;
    let options = Options { threads: Some(threads), pin: Some(false) };
    CpuExecutor::assemble(graph, plan, checkpoint, KernelSource::Linked(kernels), &options)
}

/// Runs `ids` at `position` of `slot`, every row selected.
pub fn run(executor: &mut CpuExecutor, kind: StepKind, slot: u32, position: usize, ids: &[u32]) -> Vec<f32> {
    let rows = ids.len() as u32;
    let positions: Vec<u32> = (position as u32..position as u32 + rows).collect();
    let selected: Vec<u32> = (0..rows).collect();
    let batch = Batch {
        kind,
        token_ids: ids,
        positions: &positions,
        slots: &vec![slot; ids.len()],
        starts: &[0, rows],
        selected_rows: &selected,
    };
    executor.step(&batch).unwrap().to_vec()
}

extern "C" fn version() -> u32 {
    abi::ABI
}
extern "C" fn one() -> u32 {
    1
}
extern "C" fn two() -> u32 {
    2
}
extern "C" fn none(_rows: u32, _threads: u32) -> usize {
    0
}
extern "C" fn unpacked(_weight: u32) -> usize {
    0
}
extern "C" fn matrix(_weight: u32) -> usize {
    MATRIX_BYTES
}
unsafe extern "C" fn no_pack(_weight: u32, _stored: *const u8, _packed: *mut u8) {}

unsafe extern "C" fn transpose(_weight: u32, stored: *const u8, packed: *mut u8) {
    assert!(packed.addr().is_multiple_of(64));
    for i in 0..VOCABULARY * WIDTH {
        let (row, column) = (i / WIDTH, i % WIDTH);
        unsafe {
            *packed.cast::<f32>().add(column * VOCABULARY + row) =
                stored.cast::<f32>().add(i).read_unaligned();
        }
    }
}

unsafe extern "C" fn embed(call: *const abi::Call, _phase: u32, thread: u32) {
    unsafe {
        let (call, step) = (&*call, &*(*call).step);
        let (first, last) = abi::share(step.rows as usize, 1, thread as usize, call.threads as usize);
        for row in first..last {
            let id = *step.token_ids.add(row) as usize;
            let source = call.weights[0].cast::<f32>().add(id * WIDTH);
            source.copy_to(call.outputs[0].add(row * WIDTH), WIDTH);
        }
    }
}

/// Phase 0 writes the cache, phase 1 reads what all threads wrote.
unsafe extern "C" fn attend(call: *const abi::Call, phase: u32, thread: u32) {
    unsafe {
        let (call, step) = (&*call, &*(*call).step);
        let (first, last) = abi::share(step.rows as usize, 1, thread as usize, call.threads as usize);
        for row in first..last {
            let x = call.inputs[0].add(row * WIDTH);
            let offset = *step.slots.add(row) as usize * call.cache.slot_bytes;
            let keys = call.cache.keys.add(offset).cast::<f32>();
            let values = call.cache.values.add(offset).cast::<f32>();
            let position = *step.positions.add(row) as usize;
            if phase == 0 {
                x.copy_to(keys.add(position * WIDTH), WIDTH);
                x.copy_to(values.add(position * WIDTH), WIDTH);
                continue;
            }
            let cell = |cache: *mut f32, position: usize, i: usize| *cache.add(position * WIDTH + i);
            let (mut total, mut sums) = (0.0f32, [0.0f32; WIDTH]);
            for seen in 0..=position {
                let score: f32 = (0..WIDTH).map(|i| *x.add(i) * cell(keys, seen, i)).sum();
                let weight = (0.5 * score).exp();
                total += weight;
                (0..WIDTH).for_each(|i| sums[i] += weight * cell(values, seen, i));
            }
            (0..WIDTH).for_each(|i| *call.outputs[0].add(row * WIDTH + i) = sums[i] / total);
        }
    }
}

/// Outputs are shared out by ticket.
unsafe extern "C" fn head(call: *const abi::Call, _phase: u32, _thread: u32) {
    unsafe {
        let (call, step) = (&*call, &*(*call).step);
        loop {
            let output = (*call.ticket).fetch_add(1, Ordering::Relaxed) as usize;
            if output >= VOCABULARY {
                return;
            }
            for number in 0..step.selected as usize {
                let row = *step.selected_rows.add(number) as usize;
                let a = call.inputs[0].add(row * WIDTH);
                let weights = call.weights[0].cast::<f32>();
                let sum = (0..WIDTH).map(|i| *a.add(i) * *weights.add(i * VOCABULARY + output)).sum();
                *call.outputs[0].add(number * VOCABULARY + output) = sum;
            }
        }
    }
}
