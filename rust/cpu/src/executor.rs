//! The executor: one engine folder on the processors of this machine.

use crate::abi;
use crate::cores;
use crate::kernel::{Kernel, KernelSource};
use crate::memory::{Pages, Region};
use crate::packing::Packed;
use crate::pool::{Pool, PoolOptions};
use crate::processor;
use crate::program::{Layout, Places, Program};
use enginewright_core::batch::{SlotsSeen, StepLimits, check};
use enginewright_core::cache::{LayerCache, OpState, place_caches};
use enginewright_core::error::EngineError;
use enginewright_core::executor::{Batch, Engine, Executor, Limits, StepKind};
use enginewright_core::graph::Graph;
use enginewright_core::plan::Plan;
use enginewright_core::weights::Checkpoint;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What the caller may decide instead of the plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Threads, instead of the plan's.
    pub threads: Option<usize>,
    /// Whether threads stay on one core each, instead of what the plan says.
    pub pin: Option<bool>,
}

/// A loaded engine.
pub struct CpuExecutor {
    // The pool comes first: its threads end before the memory they use goes.
    pool: Pool,
    steps: BTreeMap<StepKind, (Program, StepLimits)>,
    seen: SlotsSeen,
    graph: Graph,
    plan: Plan,
    limits: Limits,
    _kernels: HashMap<String, Kernel>,
    _packed: Packed,
    _checkpoint: Checkpoint,
    _memory: [Region; 3],
}

// SAFETY: the raw pointers inside lead into memory that moves with the executor; nothing is tied to a thread.
unsafe impl Send for CpuExecutor {}

impl CpuExecutor {
    /// Loads the engine in `engine` with the weights in `checkpoint`.
    ///
    /// # Errors
    /// Any [`EngineError`] but `Batch`: nothing is half-loaded.
    pub fn load(engine: &Path, checkpoint: &Path, options: &Options) -> Result<Self, EngineError> {
        let graph = Graph::load(&engine.join("graph.json"))?;
        let plan = Plan::load(&engine.join("plan.json"), &graph)?;
        processor::require(&plan.requires, &processor::features()?)?;
        let checkpoint = Checkpoint::open(checkpoint, &graph)?;
        Self::assemble(graph, plan, checkpoint, KernelSource::Folder(&engine.join("kernels")), options)
    }

    /// Puts an engine together from checked parts: for programs that carry some of them inside.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn assemble(
        graph: Graph,
        plan: Plan,
        checkpoint: Checkpoint,
        source: KernelSource<'_>,
        options: &Options,
    ) -> Result<Self, EngineError> {
        processor::require(&plan.requires, &processor::features()?)?;
        let kernels = load_kernels(&plan, source)?;
        let cores = cores::allowed();
        let threads = options.threads.unwrap_or(plan.threads).clamp(1, 1024);
        let packed = Packed::prepare(&graph, &plan, &kernels, &checkpoint, threads.min(cores.len().max(1)))?;
        let kept = place_caches(&graph, &plan)?;
        let purpose = "the key and value cache and recurrent states";
        let mut cache_memory = Region::reserve(kept.bytes, Pages::Sparse, purpose)?;
        let caches = cache_pointers(cache_memory.start(), &kept.layers, &plan);
        let start = cache_memory.start();
        let state = |place: &OpState| abi::State {
            start: start.wrapping_add(place.start),
            slot_bytes: place.slot_bytes,
        };
        let states = kept.states.iter().map(|place| (place.op.clone(), state(place))).collect();
        let mut layouts = Vec::new();
        for (kind, step) in &plan.steps {
            layouts.push((*kind, Layout::plan(&graph, step, &kernels, threads)?));
        }
        // Steps never overlap in time, so they share one arena and one scratch.
        let arena_bytes = layouts.iter().map(|(_, layout)| layout.placement.bytes).max().unwrap_or(0);
        let scratch_bytes = layouts.iter().map(|(_, layout)| layout.scratch_bytes).max().unwrap_or(0);
        let mut arena = Region::reserve(arena_bytes, Pages::Sparse, "buffers")?;
        let mut scratch = Region::reserve(scratch_bytes, Pages::Sparse, "scratch")?;
        let places = Places {
            arena: arena.start(),
            scratch: scratch.start(),
            packed: &packed,
            caches: &caches,
            states: &states,
            threads: threads as u32,
        };
        let mut steps = BTreeMap::new();
        for (kind, layout) in &layouts {
            let program = layout.link(&graph, &places)?;
            steps.insert(*kind, (program, StepLimits::of(*kind, &graph, &plan)));
        }
        drop(layouts);
        let pool = Pool::start(&PoolOptions {
            threads,
            spin: Duration::from_micros(plan.pool.spin_microseconds),
            cores: if options.pin.unwrap_or(plan.pool.pin) { cores } else { Vec::new() },
        })?;
        let limits = Limits::of(&graph, &plan);
        Ok(Self {
            pool,
            steps,
            seen: SlotsSeen::new(limits.slots),
            graph,
            plan,
            limits,
            _kernels: kernels,
            _packed: packed,
            _checkpoint: checkpoint,
            _memory: [cache_memory, arena, scratch],
        })
    }

    fn run(&mut self, batch: &Batch<'_>, clock: Option<&[AtomicU64]>) -> Result<&[f32], EngineError> {
        let Some((program, limits)) = self.steps.get_mut(&batch.kind) else {
            return Err(EngineError::Batch { reason: format!("this engine has no {:?} step", batch.kind) });
        };
        check(batch, limits, &mut self.seen)?;
        let segments = batch.starts.len() - 1;
        let is_encode = batch.kind == StepKind::Encode;
        let selected = if is_encode { 0 } else { batch.selected_rows.len() };
        program.set_step(abi::Step {
            rows: batch.token_ids.len() as u32,
            segments: segments as u32,
            selected: selected as u32,
            token_ids: batch.token_ids.as_ptr(),
            positions: batch.positions.as_ptr(),
            slots: batch.slots.as_ptr(),
            starts: batch.starts.as_ptr(),
            selected_rows: batch.selected_rows.as_ptr(),
        });
        let program = &*program;
        // SAFETY: the batch was checked and outlives the call.
        self.pool.run(&|thread, barrier, turn| unsafe { program.run(thread, barrier, turn, clock) });
        let rows = if is_encode { segments } else { selected };
        // SAFETY: the output buffer has room for the step's most rows, was written by its kernel (or is zero), and
        // stays untouched until the next call, which needs `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(program.output, rows * self.limits.output_width) })
    }
}

impl Executor for CpuExecutor {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        self.run(batch, None)
    }
}

impl Engine for CpuExecutor {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn pretend_held(&mut self, slot: usize, positions: u32) {
        self.seen.pretend_held(slot, positions);
    }

    fn step_timed(&mut self, batch: &Batch<'_>, clock: &[AtomicU64]) -> Result<&[f32], EngineError> {
        let groups = self.steps.get(&batch.kind).map_or(0, |(program, _)| program.groups);
        if clock.len() != groups {
            return Err(EngineError::Batch {
                reason: format!("{} counters for {groups} groups", clock.len()),
            });
        }
        self.run(batch, Some(clock))
    }
}

/// Every object of the plan, once.
fn load_kernels(plan: &Plan, source: KernelSource<'_>) -> Result<HashMap<String, Kernel>, EngineError> {
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
            kernels.insert(object.clone(), source.load(object, &group.kernel)?);
        }
    }
    Ok(kernels)
}

fn cache_pointers(start: *mut u8, layers: &[LayerCache], plan: &Plan) -> BTreeMap<u64, abi::Cache> {
    let place = |layer: &LayerCache| abi::Cache {
        keys: start.wrapping_add(layer.keys),
        values: start.wrapping_add(layer.values),
        slot_bytes: layer.slot_bytes,
        capacity: plan.cache.capacity as u32,
    };
    layers.iter().map(|layer| (layer.layer, place(layer))).collect()
}
