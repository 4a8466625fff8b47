//! What the groups of a step hand to each other: found once, whatever device runs them.

use crate::arena::{Live, Placement, place};
use crate::error::EngineError;
use crate::graph::{Graph, OpKind, Rows};
use crate::plan::{Group, Step};
use std::collections::{HashMap, HashSet};

/// Most external inputs or outputs of a group, in every kernel contract.
pub const MAX_BUFFERS: usize = 8;
/// Most weights of a group, in every kernel contract.
pub const MAX_WEIGHTS: usize = 16;

/// One group and what crosses its border, in the order of the kernel contracts.
pub struct Wiring<'a> {
    pub group: &'a Group,
    /// Buffers read from outside, in order of first use.
    pub inputs: Vec<&'a str>,
    /// Buffers read outside, or the answer, in order of production.
    pub outputs: Vec<&'a str>,
    /// `(weight, layout)` in the order the kernel sees them.
    pub weights: Vec<(&'a str, &'a str)>,
    /// Layer whose cache the group touches.
    pub layer: Option<u64>,
    /// Op whose state the group carries on.
    pub state: Option<&'a str>,
    /// Whether the group makes selected rows only, and has nothing to do without any.
    pub only_selected: bool,
}

/// What crosses each group's border.
///
/// # Errors
/// [`EngineError::Kernel`] if a group has more buffers or weights than a call holds.
pub fn wire<'a>(graph: &'a Graph, step: &'a Step) -> Result<Vec<Wiring<'a>>, EngineError> {
    let mut readers: HashMap<&str, HashSet<usize>> = HashMap::new();
    for (index, group) in step.groups.iter().enumerate() {
        for name in group.graph_ops(graph).flat_map(|op| &op.inputs) {
            readers.entry(name).or_default().insert(index);
        }
    }
    let mut wirings = Vec::with_capacity(step.groups.len());
    for (index, group) in step.groups.iter().enumerate() {
        let produced: Vec<&str> =
            group.graph_ops(graph).flat_map(|op| &op.outputs).map(String::as_str).collect();
        let mut inputs: Vec<&str> = Vec::new();
        for name in group.graph_ops(graph).flat_map(|op| &op.inputs) {
            if !produced.contains(&name.as_str()) && !inputs.contains(&name.as_str()) {
                inputs.push(name);
            }
        }
        let is_read_outside =
            |name: &str| readers.get(name).is_some_and(|groups| groups.iter().any(|&reader| reader != index));
        let outputs: Vec<&str> =
            produced.iter().copied().filter(|name| *name == graph.output || is_read_outside(name)).collect();
        let names = group.graph_ops(graph).flat_map(|op| &op.weights);
        let weights: Vec<(&str, &str)> =
            names.zip(&group.layouts).map(|(name, layout)| (name.as_str(), layout.as_str())).collect();
        // Theirs are handed over in a table of any length.
        let has_experts = group.graph_ops(graph).any(|op| matches!(op.kind, OpKind::Experts { .. }));
        let most = [
            ("inputs", inputs.len(), MAX_BUFFERS),
            ("outputs", outputs.len(), MAX_BUFFERS),
            ("weights", if has_experts { 0 } else { weights.len() }, MAX_WEIGHTS),
        ];
        if let Some((what, count, limit)) = most.into_iter().find(|&(_, count, limit)| count > limit) {
            return Err(EngineError::Kernel {
                kernel: group.kernel.clone(),
                reason: format!("group {}: has {count} {what}; a call holds {limit}", group.id),
                hint: "build the engine again".into(),
            });
        }
        let only_selected = !produced.is_empty()
            && produced
                .iter()
                .all(|name| graph.buffers.get(*name).is_some_and(|buffer| buffer.rows == Rows::Selected));
        let layer = group.graph_ops(graph).find_map(|op| op.cache_site()).map(|site| site.layer);
        let state = group.graph_ops(graph).find(|op| op.recurrence().is_some()).map(|op| op.id.as_str());
        wirings.push(Wiring { group, inputs, outputs, weights, layer, state, only_selected });
    }
    Ok(wirings)
}

/// A place in one arena for every buffer that crosses a border.
///
/// # Errors
/// [`EngineError::Memory`] if buffers do not fit the address space.
pub fn place_buffers(graph: &Graph, step: &Step, wirings: &[Wiring<'_>]) -> Result<Placement, EngineError> {
    let mut lives: HashMap<&str, Live> = HashMap::new();
    for (index, wiring) in wirings.iter().enumerate() {
        for &name in &wiring.outputs {
            let last = if name == graph.output { wirings.len() } else { index };
            let bytes = buffer_bytes(graph, step, name).ok_or_else(|| too_large(name))?;
            lives.insert(name, Live { name: name.to_owned(), bytes, first: index, last });
        }
        for name in &wiring.inputs {
            if let Some(live) = lives.get_mut(name) {
                live.last = live.last.max(index);
            }
        }
    }
    place(lives.into_values().collect()).ok_or_else(|| too_large("all buffers"))
}

fn buffer_bytes(graph: &Graph, step: &Step, name: &str) -> Option<usize> {
    let buffer = graph.buffers.get(name)?;
    let rows = match buffer.rows {
        Rows::Selected => step.selected,
        // There are at most as many segments as rows.
        Rows::Tokens | Rows::Segments => step.rows,
    };
    usize::try_from(rows.checked_mul(buffer.width)?.checked_mul(4)?).ok()
}

fn too_large(what: &str) -> EngineError {
    EngineError::Memory {
        bytes: usize::MAX,
        purpose: format!("buffers ({what})"),
        hint: "plan fewer rows".into(),
    }
}
