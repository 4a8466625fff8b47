//! Where what slots keep lies in one region: keys and values of each layer, and states of recurrent ops. The same on
//! every device.

use crate::arena::aligned;
use crate::error::EngineError;
use crate::graph::Graph;
use crate::plan::Plan;

/// Offsets and slot size of one layer's cache, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerCache {
    pub layer: u64,
    pub keys: usize,
    pub values: usize,
    pub slot_bytes: usize,
}

/// Offset and slot size of what one recurrent op carries on, in bytes; always float32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpState {
    pub op: String,
    pub start: usize,
    pub slot_bytes: usize,
}

/// Everything that slots keep, and the bytes of the region that holds it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SlotMemory {
    pub layers: Vec<LayerCache>,
    pub states: Vec<OpState>,
    pub bytes: usize,
}

/// Places the caches of all layers and the states of all recurrent ops.
///
/// # Errors
/// [`EngineError::Memory`] if they do not fit the address space.
pub fn place_caches(graph: &Graph, plan: &Plan) -> Result<SlotMemory, EngineError> {
    place(graph, plan).ok_or_else(|| EngineError::Memory {
        bytes: usize::MAX,
        purpose: "the key and value cache and recurrent states".into(),
        hint: "plan fewer slots or a smaller capacity".into(),
    })
}

fn place(graph: &Graph, plan: &Plan) -> Option<SlotMemory> {
    let slots = usize::try_from(plan.cache.slots).ok()?;
    let mut placed = SlotMemory::default();
    for op in &graph.ops {
        if let Some(site) = op.cache_site()
            && !placed.layers.iter().any(|layer| layer.layer == site.layer)
        {
            let values = site.width.checked_mul(plan.cache.capacity)?;
            let slot_bytes = slot_bytes(values.checked_mul(plan.cache.dtype.bytes())?)?;
            let part = slot_bytes.checked_mul(slots)?;
            let values = placed.bytes.checked_add(part)?;
            placed.layers.push(LayerCache { layer: site.layer, keys: placed.bytes, values, slot_bytes });
            placed.bytes = values.checked_add(part)?;
        }
        if op.recurrence().is_some() {
            let slot_bytes = slot_bytes(graph.state_values(op)?.checked_mul(4)?)?;
            placed.states.push(OpState { op: op.id.clone(), start: placed.bytes, slot_bytes });
            placed.bytes = placed.bytes.checked_add(slot_bytes.checked_mul(slots)?)?;
        }
    }
    Some(placed)
}

fn slot_bytes(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok().and_then(aligned)
}
