//! Weights in the layouts that kernels want: read in place where possible, else packed once, on several threads.

use crate::kernel::Kernel;
use crate::memory::{Pages, Region};
use enginewright_core::arena::{ALIGNMENT, aligned};
use enginewright_core::dtype::Dtype;
use enginewright_core::error::EngineError;
use enginewright_core::graph::{Graph, OpKind, Weight};
use enginewright_core::plan::{Plan, STORED};
use enginewright_core::weights::Checkpoint;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Smaller weights are copied even where they could be read in place: one touched value of a file may map a huge
/// page of it, so that norm weights strewn over the file would keep most of it resident.
const SMALL_BYTES: usize = 256 << 10;

/// A weight and its layout: what the copies are counted by.
pub type Key<'a> = (&'a str, &'a str);

/// Every weight of a plan, where kernels find it.
pub struct Packed {
    addresses: HashMap<(String, String), *const u8>,
    /// Owns what is not read in place.
    _region: Region,
}

/// One copy to make.
struct Task<'a> {
    source: Source<'a>,
    how: How<'a>,
    offset: usize,
    bytes: usize,
}

enum Source<'a> {
    Stored(&'a Weight),
    Constant(&'a [f32]),
}

enum How<'a> {
    Copy,
    /// To float32.
    Widen(Dtype),
    Pack {
        kernel: &'a Kernel,
        weight: u32,
    },
}

/// First kernel that asked for a (weight, layout), the weight's number in its group, and the packed size.
struct Wish<'a> {
    kernel: &'a Kernel,
    weight: u32,
    bytes: usize,
}

impl Packed {
    /// Packs everything that the plan's groups ask for.
    ///
    /// # Errors
    /// [`EngineError::Kernel`] if a kernel and the plan disagree about a layout, [`EngineError::Memory`].
    pub fn prepare(
        graph: &Graph,
        plan: &Plan,
        kernels: &HashMap<String, Kernel>,
        checkpoint: &Checkpoint,
        threads: usize,
    ) -> Result<Self, EngineError> {
        let wishes = collect_wishes(graph, plan, kernels)?;
        let vector_read = read_as_vectors(graph);
        let vectors = graph.vectors();
        let mut addresses = HashMap::new();
        let mut tasks = Vec::new();
        let mut total: usize = 0;
        for (&(name, layout), wish) in &wishes {
            let (source, stored_bytes) = match (graph.weights.get(name), graph.constants.get(name)) {
                (Some(weight), _) => (Source::Stored(weight), weight.bytes as usize),
                (None, Some(constant)) => {
                    (Source::Constant(&constant.values), size_of_val(constant.values.as_slice()))
                }
                (None, None) => continue,
            };
            if let Source::Stored(weight) = source
                && layout == STORED
                && (weight.dtype == Dtype::F32 || !vectors.contains(name))
            {
                let address = checkpoint.bytes(weight).as_ptr();
                // Quantised blocks have odd sizes and embedding rows are read one by one: neither gains from an
                // aligned start. A float matrix does.
                let needed = if !weight.dtype.is_float() {
                    2
                } else if vector_read.contains(name) {
                    ALIGNMENT
                } else {
                    weight.dtype.block_bytes() as usize
                };
                if stored_bytes >= SMALL_BYTES && address.addr().is_multiple_of(needed) {
                    addresses.insert((name.to_owned(), layout.to_owned()), address);
                    continue;
                }
            }
            let (how, bytes) = match (layout, &source) {
                (STORED, Source::Stored(weight)) if weight.dtype != Dtype::F32 && vectors.contains(name) => {
                    let values = weight.shape.iter().product::<u64>() as usize;
                    (How::Widen(weight.dtype), values * size_of::<f32>())
                }
                (STORED, _) => (How::Copy, stored_bytes),
                _ => (How::Pack { kernel: wish.kernel, weight: wish.weight }, wish.bytes),
            };
            let offset = total;
            total = aligned(bytes).and_then(|bytes| total.checked_add(bytes)).ok_or_else(too_much)?;
            tasks.push(((name, layout), Task { source, how, offset, bytes }));
        }
        let pages = if plan.memory.huge_pages { Pages::Huge } else { Pages::Default };
        let mut region = Region::reserve(total, pages, "packed weights")?;
        let start = region.start();
        for ((name, layout), task) in &tasks {
            let address = start.wrapping_add(task.offset).cast_const();
            addresses.insert(((*name).to_owned(), (*layout).to_owned()), address);
        }
        // Large ones first, so that no thread starts the longest task last.
        tasks.sort_by_key(|(_, task)| std::cmp::Reverse(task.bytes));
        carry_out(&tasks, checkpoint, start, threads);
        Ok(Self { addresses, _region: region })
    }

    /// Where a weight of the plan lies in a layout.
    pub fn address(&self, name: &str, layout: &str) -> Option<*const u8> {
        self.addresses.get(&(name.to_owned(), layout.to_owned())).copied()
    }
}

fn too_much() -> EngineError {
    EngineError::Memory {
        bytes: usize::MAX,
        purpose: "packed weights".into(),
        hint: "a kernel states an impossible packed size; build the engine again".into(),
    }
}

/// Everything that groups ask for, each (weight, layout) once.
fn collect_wishes<'a>(
    graph: &'a Graph,
    plan: &'a Plan,
    kernels: &'a HashMap<String, Kernel>,
) -> Result<BTreeMap<Key<'a>, Wish<'a>>, EngineError> {
    let mut wishes: BTreeMap<Key<'a>, Wish<'a>> = BTreeMap::new();
    for group in plan.steps.values().flat_map(|step| &step.groups) {
        let Some(kernel) = group.object.as_ref().and_then(|object| kernels.get(object)) else {
            continue;
        };
        let names = group.graph_ops(graph).flat_map(|op| &op.weights);
        for (weight, (name, layout)) in names.zip(&group.layouts).enumerate() {
            let bytes = (kernel.table.packed_bytes)(weight as u32);
            let refuse = |reason: String| EngineError::Kernel {
                kernel: group.kernel.clone(),
                reason: format!("group {}, weight `{name}`: {reason}", group.id),
                hint: "plan and kernel disagree; build the engine again".into(),
            };
            if (layout == STORED) != (bytes == 0) {
                return Err(refuse(format!(
                    "the plan says layout `{layout}`, the kernel {bytes} packed bytes"
                )));
            }
            if layout != STORED && graph.constants.contains_key(name) {
                return Err(refuse("a constant is always read as stored".into()));
            }
            match wishes.entry((name, layout)) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(Wish { kernel, weight: weight as u32, bytes });
                }
                std::collections::btree_map::Entry::Occupied(entry) if entry.get().bytes != bytes => {
                    let other = entry.get().bytes;
                    return Err(refuse(format!(
                        "layout `{layout}` takes {bytes} bytes here and {other} elsewhere"
                    )));
                }
                std::collections::btree_map::Entry::Occupied(_) => {}
            }
        }
    }
    Ok(wishes)
}

/// Weights that an op other than `embed` reads.
fn read_as_vectors(graph: &Graph) -> HashSet<&str> {
    let ops = graph.ops.iter().filter(|op| !matches!(op.kind, OpKind::Embed { .. }));
    ops.flat_map(|op| op.weights.iter().map(String::as_str)).collect()
}

/// Makes every copy, and lets go of the file's pages behind it, so that weights are resident about once.
fn carry_out(tasks: &[(Key<'_>, Task<'_>)], checkpoint: &Checkpoint, start: *mut u8, threads: usize) {
    /// An address that threads may share: every task writes a part of its own.
    #[derive(Clone, Copy)]
    struct Start(*mut u8);
    // SAFETY: see above.
    unsafe impl Send for Start {}

    let next = AtomicUsize::new(0);
    let start = Start(start);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let next = &next;
            scope.spawn(move || {
                let start = start;
                while let Some((_, task)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let source = match task.source {
                        Source::Stored(weight) => checkpoint.bytes(weight).as_ptr(),
                        Source::Constant(values) => values.as_ptr().cast(),
                    };
                    // SAFETY: `offset + bytes` lies inside the region, tasks do not overlap, and the source has
                    // the size that the checked graph gives it. A kernel writes what `ew_packed_bytes` promised.
                    unsafe {
                        let target = start.0.add(task.offset);
                        match task.how {
                            How::Copy => source.copy_to_nonoverlapping(target, task.bytes),
                            How::Widen(dtype) => {
                                let bytes = task.bytes / size_of::<f32>() * dtype.block_bytes() as usize;
                                let stored = std::slice::from_raw_parts(source, bytes);
                                let values = dtype.widened(stored).unwrap_or_default();
                                values.as_ptr().copy_to_nonoverlapping(target.cast(), values.len());
                            }
                            How::Pack { kernel, weight } => (kernel.table.pack)(weight, source, target),
                        }
                    }
                    if let Source::Stored(weight) = task.source {
                        checkpoint.release(weight);
                    }
                }
            });
        }
    });
}
