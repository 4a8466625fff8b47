//! A step graph made ready to run: a flat list of kernel calls with every pointer filled in.

use crate::abi;
use crate::kernel::Kernel;
use crate::packing::Packed;
use crate::pool::{Barrier, Turn};
use enginewright_core::arena::Placement;
use enginewright_core::error::EngineError;
use enginewright_core::graph::Graph;
use enginewright_core::plan::{Group, Step};
use enginewright_core::wiring::{Wiring, place_buffers, wire};
use std::collections::{BTreeMap, HashMap};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// What a step needs before its pointers are known.
pub struct Layout<'a> {
    pub placement: Placement,
    pub scratch_bytes: usize,
    groups: Vec<(Wiring<'a>, &'a Kernel)>,
}

/// Where the pointers of a program point.
pub struct Places<'a> {
    pub arena: *mut u8,
    pub scratch: *mut u8,
    pub packed: &'a Packed,
    pub caches: &'a BTreeMap<u64, abi::Cache>,
    /// By recurrent op.
    pub states: &'a BTreeMap<String, abi::State>,
    pub threads: u32,
}

/// One phase of one group.
struct Entry {
    call: abi::Call,
    run: unsafe extern "C" fn(*const abi::Call, u32, u32),
    phase: u32,
    group: usize,
    /// Whether the group computes selected rows only, and has nothing to do without any.
    only_selected: bool,
    is_last_phase: bool,
}

/// A step graph ready to run.
pub struct Program {
    entries: Vec<Entry>,
    /// One for each entry, so that clearing them needs no barrier of its own.
    tickets: Box<[AtomicU32]>,
    /// What all calls point to; boxed, so that it stays where it is.
    step: Box<abi::Step>,
    /// The weight tables that calls point to.
    _tables: Vec<Box<[*const u8]>>,
    pub output: *const f32,
    pub groups: usize,
}

// SAFETY: the pointers lead into memory that the executor owns beside the program, and only threads inside
// `Executor::step` follow them.
unsafe impl Send for Program {}
// SAFETY: as above; threads share the program read-only, and kernels keep to their own shares of the buffers.
unsafe impl Sync for Program {}

impl<'a> Layout<'a> {
    /// Finds what crosses the groups' borders, and a place for it.
    ///
    /// # Errors
    /// [`EngineError::Kernel`] if a group has more buffers or weights than a call holds or asks for impossible
    /// scratch, [`EngineError::Memory`] if buffers do not fit the address space.
    pub fn plan(
        graph: &'a Graph,
        step: &'a Step,
        kernels: &'a HashMap<String, Kernel>,
        threads: usize,
    ) -> Result<Self, EngineError> {
        let wirings = wire(graph, step)?;
        let placement = place_buffers(graph, step, &wirings)?;
        let mut groups = Vec::with_capacity(wirings.len());
        for wiring in wirings {
            let object = wiring.group.object.as_deref().unwrap_or_default();
            let kernel = kernels
                .get(object)
                .ok_or_else(|| broken(wiring.group, format!("object `{object}` is not loaded")))?;
            groups.push((wiring, kernel));
        }
        let mut scratch_bytes = 0;
        for (wiring, kernel) in &groups {
            let bytes = (kernel.table.scratch)(step.rows as u32, threads as u32);
            if bytes > isize::MAX as usize / 2 {
                return Err(broken(wiring.group, format!("asks for {bytes} bytes of scratch")));
            }
            scratch_bytes = scratch_bytes.max(bytes);
        }
        Ok(Self { placement, scratch_bytes, groups })
    }

    /// Fills every pointer in.
    ///
    /// # Errors
    /// [`EngineError::Kernel`] if a weight or cache has no place: a broken promise of the checks before.
    pub fn link(&self, graph: &Graph, places: &Places<'_>) -> Result<Program, EngineError> {
        let mut step = Box::new(abi::Step {
            rows: 0,
            segments: 0,
            selected: 0,
            token_ids: null_mut(),
            positions: null_mut(),
            slots: null_mut(),
            starts: null_mut(),
            selected_rows: null_mut(),
        });
        let phases: u32 = self.groups.iter().map(|(_, kernel)| kernel.phases).sum();
        let tickets: Box<[AtomicU32]> = (0..phases).map(|_| AtomicU32::new(0)).collect();
        let mut entries = Vec::with_capacity(phases as usize);
        let mut tables = Vec::with_capacity(self.groups.len());
        for (group, (wiring, kernel)) in self.groups.iter().enumerate() {
            let table = weight_table(wiring, places)?;
            for phase in 0..kernel.phases {
                let ticket = &raw const tickets[entries.len()];
                entries.push(Entry {
                    call: self.call(wiring, places, &table, &raw mut *step, ticket)?,
                    run: kernel.table.run,
                    phase,
                    group,
                    only_selected: wiring.only_selected,
                    is_last_phase: phase + 1 == kernel.phases,
                });
            }
            tables.push(table);
        }
        let output = self.buffer(&graph.output, places).cast_const();
        Ok(Program { entries, tickets, step, _tables: tables, output, groups: self.groups.len() })
    }

    fn buffer(&self, name: &str, places: &Places<'_>) -> *mut f32 {
        let offset = self.placement.offsets.get(name).copied().unwrap_or(0);
        places.arena.wrapping_add(offset).cast()
    }

    fn call(
        &self,
        wiring: &Wiring<'_>,
        places: &Places<'_>,
        table: &[*const u8],
        step: *const abi::Step,
        ticket: *const AtomicU32,
    ) -> Result<abi::Call, EngineError> {
        let mut call = abi::Call {
            step,
            threads: places.threads,
            inputs: [std::ptr::null(); abi::MAX_BUFFERS],
            outputs: [null_mut(); abi::MAX_BUFFERS],
            weights: [std::ptr::null(); abi::MAX_WEIGHTS],
            cache: abi::Cache { keys: null_mut(), values: null_mut(), slot_bytes: 0, capacity: 0 },
            table: table.as_ptr(),
            state: abi::State { start: null_mut(), slot_bytes: 0 },
            scratch: places.scratch,
            ticket,
        };
        for (slot, name) in call.inputs.iter_mut().zip(&wiring.inputs) {
            *slot = self.buffer(name, places).cast_const();
        }
        for (slot, name) in call.outputs.iter_mut().zip(&wiring.outputs) {
            *slot = self.buffer(name, places);
        }
        for (slot, address) in call.weights.iter_mut().zip(table) {
            *slot = *address;
        }
        if let Some(layer) = wiring.layer {
            let cache = places.caches.get(&layer);
            call.cache = *cache
                .ok_or_else(|| broken(wiring.group, format!("layer {layer} has no cache. This is a bug")))?;
        }
        if let Some(op) = wiring.state {
            let state = places.states.get(op);
            call.state =
                *state.ok_or_else(|| broken(wiring.group, format!("{op} has no state. This is a bug")))?;
        }
        Ok(call)
    }
}

impl Program {
    /// Points the calls at the rows of one batch and clears the tickets.
    pub fn set_step(&mut self, step: abi::Step) {
        *self.step = step;
        for ticket in &self.tickets {
            ticket.store(0, Ordering::Relaxed);
        }
    }

    /// One thread's part of the whole step; every thread of the pool calls it. With `clock`, thread 0 adds the
    /// nanoseconds of each group, barriers included, to `[groups]` counters.
    ///
    /// # Safety
    /// The batch that [`Self::set_step`] was given is alive and has been checked against the step's limits.
    pub unsafe fn run(&self, thread: usize, barrier: &Barrier, turn: &mut Turn, clock: Option<&[AtomicU64]>) {
        let nothing_selected = self.step.selected == 0;
        let mut begin = clock.filter(|_| thread == 0).map(|counters| (counters, Instant::now()));
        for entry in &self.entries {
            if entry.only_selected && nothing_selected {
                continue;
            }
            // SAFETY: pointers and limits as the contract wants them; the caller vouches for the batch.
            unsafe { (entry.run)(&entry.call, entry.phase, thread as u32) };
            barrier.wait(thread, turn);
            if let Some((counters, last)) = &mut begin
                && entry.is_last_phase
            {
                let now = Instant::now();
                counters[entry.group].fetch_add((now - *last).as_nanos() as u64, Ordering::Relaxed);
                *last = now;
            }
        }
    }
}

/// Every weight of a group, in order.
fn weight_table(wiring: &Wiring<'_>, places: &Places<'_>) -> Result<Box<[*const u8]>, EngineError> {
    let found = wiring.weights.iter().map(|(name, layout)| {
        let address = places.packed.address(name, layout);
        address.ok_or_else(|| broken(wiring.group, format!("{name} was not packed. This is a bug")))
    });
    found.collect()
}

fn broken(group: &Group, reason: String) -> EngineError {
    EngineError::Kernel {
        kernel: group.kernel.clone(),
        reason: format!("group {}: {reason}", group.id),
        hint: "build the engine again".into(),
    }
}
