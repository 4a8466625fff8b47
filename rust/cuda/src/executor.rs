//! The executor: one engine folder on one NVIDIA GPU.

use crate::abi;
use crate::device::{Device, DeviceFacts, failed};
use crate::kernel::Kernel;
use crate::memory::{DeviceMemory, Pinned, upload};
use crate::program::{Bucket, Launch, Program, RowsOf};
use cudarc::driver::{result, sys};
use enginewright_core::arena::aligned;
use enginewright_core::batch::{SlotsSeen, StepLimits, check};
use enginewright_core::cache::place_caches;
use enginewright_core::error::EngineError;
use enginewright_core::executor::{Batch, Engine, Executor, Limits, StepKind};
use enginewright_core::graph::{Graph, Op, OpKind, Rows};
use enginewright_core::plan::{Plan, STORED};
use enginewright_core::weights::Checkpoint;
use enginewright_core::wiring::{Wiring, place_buffers, wire};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A loaded engine.
pub struct CudaExecutor {
    steps: BTreeMap<StepKind, (Program, StepLimits)>,
    rows: StepRows,
    answer: Pinned,
    seen: SlotsSeen,
    limits: Limits,
    graph: Graph,
    plan: Plan,
    events: Vec<Event>,
    // Below: what the programs above point at, the device last.
    _kernels: HashMap<String, Kernel>,
    _memory: Vec<DeviceMemory>,
    device: Device,
}

impl CudaExecutor {
    /// Loads the engine in `engine` with the weights in `checkpoint` onto the first device.
    ///
    /// # Errors
    /// Any [`EngineError`] but `Batch`: nothing is half-loaded.
    pub fn load(engine: &Path, checkpoint: &Path) -> Result<Self, EngineError> {
        let graph = Graph::load(&engine.join("graph.json"))?;
        let plan = Plan::load(&engine.join("plan.json"), &graph)?;
        refuse_unserved(&graph)?;
        let checkpoint = Checkpoint::open(checkpoint, &graph)?;
        let device = Device::open(0)?;
        device.require(&plan.requires)?;
        let kernels = load_kernels(&plan, &engine.join("kernels"))?;
        let mut memory = Vec::new();
        let weights = load_weights(&graph, &plan, &kernels, &checkpoint, &device, &mut memory)?;
        let kept = place_caches(&graph, &plan)?;
        let cache = DeviceMemory::zeroed(kept.bytes, "the key and value cache")?;
        let caches: BTreeMap<u64, abi::Cache> = kept
            .layers
            .iter()
            .map(|layer| {
                let place = abi::Cache {
                    keys: cache.at(layer.keys),
                    values: cache.at(layer.values),
                    slot_bytes: layer.slot_bytes as u64,
                    capacity: plan.cache.capacity,
                };
                (layer.layer, place)
            })
            .collect();
        let rows = StepRows::reserve(&plan)?;
        let mut wired = Vec::new();
        let (mut arena_bytes, mut scratch_bytes) = (0, 0);
        for (kind, step) in &plan.steps {
            let wirings = wire(&graph, step)?;
            let placement = place_buffers(&graph, step, &wirings)?;
            arena_bytes = arena_bytes.max(placement.bytes);
            for wiring in &wirings {
                let kernel = kernel_of(&kernels, wiring)?;
                scratch_bytes =
                    scratch_bytes.max(kernel.info.scratch_bytes_per_row as usize * step.rows as usize);
            }
            wired.push((*kind, wirings, placement));
        }
        let arena = DeviceMemory::zeroed(arena_bytes, "buffers")?;
        let scratch = DeviceMemory::zeroed(scratch_bytes, "scratch")?;
        let mut steps = BTreeMap::new();
        for (kind, wirings, placement) in &wired {
            let places = Places {
                step: rows.memory.at(0),
                buffer: &|name| arena.at(placement.offsets.get(name).copied().unwrap_or(0)),
                weights: &weights,
                caches: &caches,
                scratch: scratch.at(0),
            };
            let launches = link(&graph, wirings, &kernels, &places)?;
            let program = Program::new(launches, (places.buffer)(&graph.output), wirings.len());
            steps.insert(*kind, (program, StepLimits::of(*kind, &graph, &plan)));
        }
        drop(wired);
        let limits = Limits::of(&graph, &plan);
        let most = plan.steps.iter().map(|(kind, step)| match kind {
            StepKind::Encode => step.rows,
            StepKind::Prefill | StepKind::Decode => step.selected,
        });
        let answer = Pinned::zeroed(most.max().unwrap_or(1) as usize * limits.output_width * 4)?;
        memory.extend([cache, arena, scratch]);
        Ok(Self {
            steps,
            rows,
            answer,
            seen: SlotsSeen::new(limits.slots),
            limits,
            graph,
            plan,
            events: Vec::new(),
            _kernels: kernels,
            _memory: memory,
            device,
        })
    }

    /// What the device says of itself.
    pub fn device(&self) -> &DeviceFacts {
        self.device.facts()
    }

    /// Checks a batch, writes its rows to the device and hands out its program with the bucket.
    fn prepare(&mut self, batch: &Batch<'_>) -> Result<Bucket, EngineError> {
        let Some((_, limits)) = self.steps.get(&batch.kind) else {
            return Err(EngineError::Batch { reason: format!("this engine has no {:?} step", batch.kind) });
        };
        check(batch, limits, &mut self.seen)?;
        self.device.enter()?;
        self.rows.send(batch, &self.device)?;
        Ok(Bucket::of(batch.token_ids.len(), batch.selected_rows.len(), limits.rows, limits.selected))
    }

    /// Copies the answer of the step on the stream, and waits for it.
    fn receive(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        let rows = match batch.kind {
            StepKind::Encode => batch.starts.len() - 1,
            StepKind::Prefill | StepKind::Decode => batch.selected_rows.len(),
        };
        let floats = rows * self.limits.output_width;
        let output = self.steps[&batch.kind].0.output;
        if floats > 0 {
            let target = &mut self.answer.bytes_mut()[..floats * 4];
            // SAFETY: the output has room for the step's most rows; `target` stays until the wait below.
            unsafe { result::memcpy_dtoh_async(target, output, self.device.stream()) }
                .map_err(failed("cuMemcpyDtoHAsync"))?;
        }
        self.device.wait()?;
        Ok(self.answer.floats(floats))
    }
}

impl Executor for CudaExecutor {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        let bucket = self.prepare(batch)?;
        if let Some((program, _)) = self.steps.get_mut(&batch.kind) {
            program.launch(&self.device, bucket)?;
        }
        self.receive(batch)
    }
}

impl Engine for CudaExecutor {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn threads(&self) -> usize {
        1
    }

    fn pretend_held(&mut self, slot: usize, positions: u32) {
        self.seen.pretend_held(slot, positions);
    }

    /// The groups are launched one by one with events between them: the step takes longer than its graph does.
    fn step_timed(&mut self, batch: &Batch<'_>, clock: &[AtomicU64]) -> Result<&[f32], EngineError> {
        let bucket = self.prepare(batch)?;
        let groups = self.steps[&batch.kind].0.groups;
        if clock.len() != groups {
            return Err(EngineError::Batch {
                reason: format!("{} counters for {groups} groups", clock.len()),
            });
        }
        while self.events.len() <= groups {
            self.events.push(Event::new()?);
        }
        let (events, device) = (&self.events, &self.device);
        if let Some((program, _)) = self.steps.get_mut(&batch.kind) {
            events[0].record(device.stream())?;
            program.launch_each(device, bucket, |group| events[group + 1].record(device.stream()))?;
        }
        device.wait()?;
        for (group, counter) in clock.iter().enumerate() {
            counter.fetch_add(self.events[group].nanoseconds_to(&self.events[group + 1])?, Ordering::Relaxed);
        }
        self.receive(batch)
    }
}

/// A point on the stream whose time is kept.
struct Event(sys::CUevent);

// SAFETY: a handle of the driver, used by whoever made the context current.
unsafe impl Send for Event {}

impl Event {
    fn new() -> Result<Self, EngineError> {
        result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map(Self).map_err(failed("cuEventCreate"))
    }

    fn record(&self, stream: sys::CUstream) -> Result<(), EngineError> {
        // SAFETY: event and stream are of the current context.
        unsafe { result::event::record(self.0, stream) }.map_err(failed("cuEventRecord"))
    }

    fn nanoseconds_to(&self, end: &Self) -> Result<u64, EngineError> {
        // SAFETY: both were recorded and waited for.
        let milliseconds =
            unsafe { result::event::elapsed(self.0, end.0) }.map_err(failed("cuEventElapsedTime"))?;
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

/// The rows of a step on their way to the device: one block, one copy.
struct StepRows {
    memory: DeviceMemory,
    staged: Pinned,
    /// Offsets of token ids, positions, slots, starts and selected rows.
    offsets: [usize; 5],
}

impl StepRows {
    fn reserve(plan: &Plan) -> Result<Self, EngineError> {
        let most = |count: &dyn Fn(&enginewright_core::plan::Step) -> u64| {
            plan.steps.values().map(count).max().unwrap_or(0) as usize
        };
        let (rows, selected) = (most(&|step| step.rows), most(&|step| step.selected));
        let mut end = aligned(size_of::<abi::Step>()).unwrap_or(64);
        let offsets = [rows, rows, rows, rows + 1, selected].map(|count| {
            let start = end;
            end += (count * 4).next_multiple_of(64);
            start
        });
        Ok(Self {
            memory: DeviceMemory::zeroed(end, "the rows of a step")?,
            staged: Pinned::zeroed(end)?,
            offsets,
        })
    }

    fn send(&mut self, batch: &Batch<'_>, device: &Device) -> Result<(), EngineError> {
        let [token_ids, positions, slots, starts, selected_rows] =
            self.offsets.map(|offset| self.memory.at(offset));
        let header = abi::Step {
            rows: batch.token_ids.len() as u32,
            segments: (batch.starts.len() - 1) as u32,
            selected: if batch.kind == StepKind::Encode { 0 } else { batch.selected_rows.len() as u32 },
            unused: 0,
            token_ids,
            positions,
            slots,
            starts,
            selected_rows,
        };
        let parts = [batch.token_ids, batch.positions, batch.slots, batch.starts, batch.selected_rows];
        let staged = self.staged.bytes_mut();
        // SAFETY: `Step` is plain numbers without gaps, and the block begins with room for it.
        unsafe { staged.as_mut_ptr().cast::<abi::Step>().write_unaligned(header) };
        let mut end = size_of::<abi::Step>();
        for (offset, part) in self.offsets.into_iter().zip(parts) {
            let bytes = part.len() * 4;
            for (target, value) in staged[offset..offset + bytes].as_chunks_mut().0.iter_mut().zip(part) {
                *target = value.to_ne_bytes();
            }
            end = end.max(offset + bytes);
        }
        // SAFETY: both blocks have this size; the step is waited for before the block is written again.
        unsafe { result::memcpy_htod_async(self.memory.at(0), &staged[..end], device.stream()) }
            .map_err(failed("cuMemcpyHtoDAsync"))
    }
}

/// Recurrent ops and experts have no kernels here yet, and calls have no place for their states and tables.
fn refuse_unserved(graph: &Graph) -> Result<(), EngineError> {
    let is_unserved = |op: &&Op| op.recurrence().is_some() || matches!(op.kind, OpKind::Experts { .. });
    let Some(op) = graph.ops.iter().find(is_unserved) else {
        return Ok(());
    };
    Err(EngineError::Invalid {
        path: "graph.json".into(),
        field: format!("ops.{}.kind", op.id),
        value: op.recurrence().map_or("experts", |(_, kind)| kind).into(),
        expected: "an op that the CUDA executor runs; it has no recurrent states and no experts yet".into(),
        hint: "build this model for the CPU".into(),
    })
}

fn load_kernels(plan: &Plan, folder: &Path) -> Result<HashMap<String, Kernel>, EngineError> {
    let mut kernels = HashMap::new();
    for group in plan.steps.values().flat_map(|step| &step.groups) {
        let Some(object) = &group.object else {
            return Err(EngineError::Kernel {
                kernel: group.kernel.clone(),
                reason: format!("group {} has no object: the plan was never built", group.id),
                hint: "build the engine; it compiles the kernels and names their objects".into(),
            });
        };
        if !kernels.contains_key(object) {
            kernels.insert(object.clone(), Kernel::load(folder, object, &group.kernel)?);
        }
    }
    Ok(kernels)
}

fn kernel_of<'a>(
    kernels: &'a HashMap<String, Kernel>,
    wiring: &Wiring<'_>,
) -> Result<&'a Kernel, EngineError> {
    let object = wiring.group.object.as_deref().unwrap_or_default();
    kernels.get(object).ok_or_else(|| broken(wiring, format!("object `{object}` is not loaded")))
}

fn broken(wiring: &Wiring<'_>, reason: String) -> EngineError {
    EngineError::Kernel {
        kernel: wiring.group.kernel.clone(),
        reason: format!("group {}: {reason}", wiring.group.id),
        hint: "build the engine again".into(),
    }
}

/// `(weight, layout)` → its place on the device.
type Weights = HashMap<(String, String), abi::Address>;

/// Brings every weight that a group asks for onto the device, once for each layout.
fn load_weights(
    graph: &Graph,
    plan: &Plan,
    kernels: &HashMap<String, Kernel>,
    checkpoint: &Checkpoint,
    device: &Device,
    memory: &mut Vec<DeviceMemory>,
) -> Result<Weights, EngineError> {
    let mut weights = Weights::new();
    let vectors = graph.vectors();
    for step in plan.steps.values() {
        for wiring in wire(graph, step)? {
            let kernel = kernel_of(kernels, &wiring)?;
            for (number, &(name, layout)) in wiring.weights.iter().enumerate() {
                let packed_bytes = kernel.info.packed_bytes[number] as usize;
                if (layout == STORED) != (packed_bytes == 0) {
                    let reason = format!(
                        "weight `{name}`: the plan says `{layout}`, the kernel {packed_bytes} packed bytes"
                    );
                    return Err(broken(&wiring, reason));
                }
                let key = (name.to_owned(), layout.to_owned());
                if weights.contains_key(&key) {
                    continue;
                }
                let held;
                let stored: &[u8] = match (graph.weights.get(name), graph.constants.get(name)) {
                    (Some(weight), _) if vectors.contains(name) => {
                        let values = weight.dtype.widened(checkpoint.bytes(weight)).unwrap_or_default();
                        held = values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
                        &held
                    }
                    (Some(weight), _) => checkpoint.bytes(weight),
                    (None, Some(constant)) => {
                        held =
                            constant.values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
                        &held
                    }
                    (None, None) => {
                        return Err(broken(&wiring, format!("unknown weight `{name}`. This is a bug")));
                    }
                };
                let raw = DeviceMemory::zeroed(stored.len(), name)?;
                upload(raw.at(0), stored)?;
                let placed = if layout == STORED {
                    raw
                } else {
                    let packed = DeviceMemory::zeroed(packed_bytes, name)?;
                    kernel.pack(number as u32, raw.at(0), packed.at(0), device.stream())?;
                    device.wait()?;
                    packed
                };
                if let Some(weight) = graph.weights.get(name) {
                    checkpoint.release(weight);
                }
                weights.insert(key, placed.at(0));
                memory.push(placed);
            }
        }
    }
    Ok(weights)
}

/// Where the addresses of calls come from.
struct Places<'a> {
    step: abi::Address,
    buffer: &'a dyn Fn(&str) -> abi::Address,
    weights: &'a Weights,
    caches: &'a BTreeMap<u64, abi::Cache>,
    scratch: abi::Address,
}

fn link(
    graph: &Graph,
    wirings: &[Wiring<'_>],
    kernels: &HashMap<String, Kernel>,
    places: &Places<'_>,
) -> Result<Vec<Launch>, EngineError> {
    let mut launches = Vec::new();
    for (group, wiring) in wirings.iter().enumerate() {
        let kernel = kernel_of(kernels, wiring)?;
        let mut call = abi::Call { step: places.step, scratch: places.scratch, ..abi::Call::default() };
        for (slot, name) in call.inputs.iter_mut().zip(&wiring.inputs) {
            *slot = (places.buffer)(name);
        }
        for (slot, name) in call.outputs.iter_mut().zip(&wiring.outputs) {
            *slot = (places.buffer)(name);
        }
        for (slot, &(name, layout)) in call.weights.iter_mut().zip(&wiring.weights) {
            let found = places.weights.get(&(name.to_owned(), layout.to_owned()));
            *slot =
                *found.ok_or_else(|| broken(wiring, format!("`{name}` was not loaded. This is a bug")))?;
        }
        if let Some(layer) = wiring.layer {
            let found = places.caches.get(&layer);
            call.cache =
                *found.ok_or_else(|| broken(wiring, format!("layer {layer} has no cache. This is a bug")))?;
        }
        let rows = rows_of(graph, wiring);
        for (phase, &function) in kernel.phases.iter().enumerate() {
            launches.push(Launch { function, call, phase: kernel.info.phase[phase], rows, group });
        }
    }
    Ok(launches)
}

/// What the rows of a group's output are, or of its input if it has none.
fn rows_of(graph: &Graph, wiring: &Wiring<'_>) -> RowsOf {
    let name = wiring.outputs.first().or(wiring.inputs.first());
    match name.and_then(|name| graph.buffers.get(*name)).map(|buffer| buffer.rows) {
        Some(Rows::Selected) => RowsOf::Selected,
        Some(Rows::Segments) => RowsOf::Segments,
        Some(Rows::Tokens) | None => RowsOf::Tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = r#"{
      "format": "enginewright.graph/1", "name": "tiny", "family": "qwen3_5", "kind": "decoder",
      "dimensions": {"hidden": 8, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 8, "feed_forward": 8,
                     "vocabulary": 16, "context": 64},
      "files": [{"path": "tiny.bin", "bytes": 608, "sha256": ""}],
      "weights": {"table": {"file": 0, "offset": 0, "bytes": 512, "dtype": "f32", "shape": [16, 8]},
                  "filter": {"file": 0, "offset": 512, "bytes": 96, "dtype": "f32", "shape": [8, 1, 3]}},
      "buffers": {"x": {"rows": "tokens", "width": 8}, "y": {"rows": "tokens", "width": 8},
                  "s": {"rows": "selected", "width": 8}, "logits": {"rows": "selected", "width": 16}},
      "ops": [
        {"id": "embed", "kind": "embed", "inputs": [], "outputs": ["x"], "weights": ["table"],
         "attributes": {"tables": ["token"], "position_offset": 0}},
        {"id": "L0.conv", "kind": "causal_conv", "inputs": ["x"], "outputs": ["y"], "weights": ["filter"],
         "attributes": {"layer": 0, "kernel": 3}},
        {"id": "select", "kind": "select_rows", "inputs": ["y"], "outputs": ["s"]},
        {"id": "head", "kind": "linear", "inputs": ["s"], "outputs": ["logits"], "weights": ["table"]}
      ],
      "output": "logits"
    }"#;

    #[test]
    fn ops_that_carry_a_state_are_refused_by_name() {
        let graph = Graph::from_text("graph.json", GRAPH).unwrap();
        let error = refuse_unserved(&graph).unwrap_err().to_string();
        assert!(error.contains("`ops.L0.conv.kind` is causal_conv"), "{error}");
        assert!(error.contains("hint: build this model for the CPU"), "{error}");
    }
}
