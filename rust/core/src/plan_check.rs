//! Whether a plan can carry out its graph: limits, coverage, order. Says the first thing that cannot.

use crate::error::EngineError;
use crate::executor::StepKind;
use crate::graph::{Graph, ModelKind, Op, OpKind};
use crate::plan::{FORMAT, Group, Plan, Step};
use crate::read_json::Place;
use std::collections::{HashMap, HashSet};

/// Most threads, rows, slots or positions that are believed: keeps sizes within 64 bits.
const MOST: u64 = 1 << 24;
/// Longest that an idle thread may watch for work.
const MOST_SPIN_MICROSECONDS: u64 = 10_000_000;

const HINT: &str = "build the engine again from its graph";

/// Checks everything that `plan.json` says, against its graph.
///
/// # Errors
/// [`EngineError::Invalid`] naming the first wrong field.
pub fn check(path: &str, plan: &Plan, graph: &Graph) -> Result<(), EngineError> {
    let place = Place { path, hint: HINT };
    if plan.format != FORMAT {
        return Err(place.invalid("format", &plan.format, FORMAT));
    }
    if plan.graph != graph.sha256 {
        let expected = format!("{}, the SHA-256 of the graph.json beside it", graph.sha256);
        return Err(place.invalid("graph", &plan.graph, expected));
    }
    within(&place, "threads", plan.threads as u64, 1024)?;
    if plan.pool.spin_microseconds > MOST_SPIN_MICROSECONDS {
        let expected = format!("at most {MOST_SPIN_MICROSECONDS}");
        return Err(place.invalid("pool.spin_microseconds", plan.pool.spin_microseconds, expected));
    }
    if graph.kind == ModelKind::Decoder {
        within(&place, "cache.capacity", plan.cache.capacity, MOST)?;
        within(&place, "cache.slots", plan.cache.slots, MOST)?;
    }
    let wanted: &[StepKind] = match graph.kind {
        ModelKind::Decoder => &[StepKind::Prefill, StepKind::Decode],
        ModelKind::Encoder => &[StepKind::Encode],
    };
    if !plan.steps.keys().eq(wanted) {
        let value = format!("{:?}", plan.steps.keys().collect::<Vec<_>>());
        return Err(place.invalid("steps", value, format!("{wanted:?}, for a {:?}", graph.kind)));
    }
    let ops: HashMap<&str, &Op> = graph.ops.iter().map(|op| (op.id.as_str(), op)).collect();
    for (kind, step) in &plan.steps {
        let name = format!("steps.{}", format!("{kind:?}").to_lowercase());
        within(&place, &format!("{name}.rows"), step.rows, MOST)?;
        within(&place, &format!("{name}.selected"), step.selected, MOST)?;
        StepCheck { place: &place, name, ops: &ops }.check(step, graph)?;
    }
    Ok(())
}

fn within(place: &Place<'_>, field: &str, value: u64, most: u64) -> Result<(), EngineError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(place.invalid(field, value, format!("1 to {most}")))
}

struct StepCheck<'a> {
    place: &'a Place<'a>,
    name: String,
    ops: &'a HashMap<&'a str, &'a Op>,
}

impl StepCheck<'_> {
    /// Every op once, after what it reads.
    fn check(&self, step: &Step, graph: &Graph) -> Result<(), EngineError> {
        let mut ids = HashSet::new();
        let mut done = HashSet::new();
        let mut written = HashSet::new();
        let mut filled = HashSet::new();
        for group in &step.groups {
            let field = |part: &str| format!("{}.groups.{}.{part}", self.name, group.id);
            if !ids.insert(group.id.as_str()) {
                return Err(self.place.invalid(field("id"), &group.id, "an id that no other group has"));
            }
            if group.ops.is_empty() {
                return Err(self.place.invalid(field("ops"), "empty", "at least one op"));
            }
            for id in &group.ops {
                let Some(op) = self.ops.get(id.as_str()) else {
                    return Err(self.place.invalid(field("ops"), id, "the id of an op of the graph"));
                };
                if !done.insert(id.as_str()) {
                    return Err(self.place.invalid(field("ops"), id, "an op that no other group computes"));
                }
                if let Some(name) = op.inputs.iter().find(|name| !written.contains(name.as_str())) {
                    let expected = "groups in an order in which inputs are written before they are read";
                    return Err(self.place.invalid(
                        field("ops"),
                        format!("{id}, which reads {name}"),
                        expected,
                    ));
                }
                written.extend(op.outputs.iter().map(String::as_str));
                self.check_cache_order(op, &mut filled, &field("ops"))?;
            }
            self.check_group(group)?;
        }
        if let Some(op) = graph.ops.iter().find(|op| !done.contains(op.id.as_str())) {
            let field = format!("{}.groups", self.name);
            return Err(self.place.invalid(field, format!("without {}", op.id), "every op of the graph"));
        }
        Ok(())
    }

    fn check_cache_order(&self, op: &Op, filled: &mut HashSet<u64>, field: &str) -> Result<(), EngineError> {
        match op.kind {
            OpKind::KvWrite { layer, .. } => {
                filled.insert(layer);
            }
            OpKind::Attention { layer, .. } if !filled.contains(&layer) => {
                let expected = "the layer's `kv_write` before its `attention`";
                return Err(self.place.invalid(field, &op.id, expected));
            }
            _ => {}
        }
        Ok(())
    }

    fn check_group(&self, group: &Group) -> Result<(), EngineError> {
        let field = |part: &str| format!("{}.groups.{}.{part}", self.name, group.id);
        let ops = || group.ops.iter().filter_map(|id| self.ops.get(id.as_str()));
        let weights: usize = ops().map(|op| op.weights.len()).sum();
        if group.layouts.len() != weights {
            let expected = format!("{weights}, one for each weight of its ops");
            return Err(self.place.invalid(field("layouts"), group.layouts.len(), expected));
        }
        let mut sites = ops().filter_map(|op| op.cache_site());
        if let Some(first) = sites.next()
            && let Some(other) = sites.find(|site| *site != first)
        {
            let value = format!("layers {} and {}", first.layer, other.layer);
            return Err(self.place.invalid(field("ops"), value, "ops over the cache of one layer"));
        }
        if ops().filter(|op| op.recurrence().is_some()).count() > 1 {
            return Err(self.place.invalid(
                field("ops"),
                "several recurrent ops",
                "one: a call has one state",
            ));
        }
        // The name becomes part of a path.
        if let Some(object) = &group.object
            && (object.is_empty() || !object.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        {
            return Err(self.place.invalid(field("object"), object, "letters and digits: a hash"));
        }
        Ok(())
    }
}
