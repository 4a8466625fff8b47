//! Where the keys and values of each layer lie in one region: the same on every device.

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

/// The caches of all layers, and the bytes of the region that holds them.
///
/// # Errors
/// [`EngineError::Memory`] if they do not fit the address space.
pub fn place_caches(graph: &Graph, plan: &Plan) -> Result<(Vec<LayerCache>, usize), EngineError> {
    let too_large = || EngineError::Memory {
        bytes: usize::MAX,
        purpose: "the key and value cache".into(),
        hint: "plan fewer slots or a smaller capacity".into(),
    };
    let mut layers: Vec<LayerCache> = Vec::new();
    let mut total: usize = 0;
    for site in graph.ops.iter().filter_map(|op| op.cache_site()) {
        if layers.iter().any(|layer| layer.layer == site.layer) {
            continue;
        }
        let slot = site.width.checked_mul(plan.cache.capacity);
        let slot = slot.and_then(|values| values.checked_mul(plan.cache.dtype.bytes()));
        let slot_bytes =
            slot.and_then(|bytes| usize::try_from(bytes).ok()).and_then(aligned).ok_or_else(too_large)?;
        let part = slot_bytes.checked_mul(plan.cache.slots as usize).ok_or_else(too_large)?;
        let values = total.checked_add(part).ok_or_else(too_large)?;
        layers.push(LayerCache { layer: site.layer, keys: total, values, slot_bytes });
        total = values.checked_add(part).ok_or_else(too_large)?;
    }
    Ok((layers, total))
}
