//! What really runs: the plan in force and how often each kernel was called. Whoever measures compares it with what was
//! meant to run.

use enginewright_core::error::EngineError;
use enginewright_core::executor::{Batch, Engine, Executor, Limits, StepKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Facts of a loaded engine, and its counters.
pub struct EngineFacts {
    told: Value,
    /// Objects of each step with the number of groups that they compute in it.
    objects: BTreeMap<StepKind, BTreeMap<String, u64>>,
    steps: BTreeMap<StepKind, AtomicU64>,
}

impl EngineFacts {
    fn of(engine: &dyn Engine) -> Self {
        let (graph, plan) = (engine.graph(), engine.plan());
        let mut objects: BTreeMap<StepKind, BTreeMap<String, u64>> = BTreeMap::new();
        for (kind, step) in &plan.steps {
            let counts = objects.entry(*kind).or_default();
            for object in step.groups.iter().filter_map(|group| group.object.as_ref()) {
                *counts.entry(object.clone()).or_default() += 1;
            }
        }
        let files: Vec<Value> =
            graph.files.iter().map(|file| json!({"path": file.path, "sha256": file.sha256})).collect();
        let told = json!({
            "graph": graph.sha256,
            "plan": plan.sha256,
            "device": plan.device,
            "threads": engine.threads(),
            "spin_microseconds": plan.pool.spin_microseconds,
            "pin": plan.pool.pin,
            "huge_pages": plan.memory.huge_pages,
            "cache": {"dtype": plan.cache.dtype, "layout": plan.cache.layout, "capacity": plan.cache.capacity,
                      "slots": plan.cache.slots},
            "numerics": plan.numerics,
            // Every prompt is computed from its first token: no request is faster for one before it.
            "prefix_cache": false,
            "files": files,
        });
        let steps = plan.steps.keys().map(|kind| (*kind, AtomicU64::new(0))).collect();
        Self { told, objects, steps }
    }

    /// As `GET /engine` answers: the facts, steps run by kind, and calls by kernel object.
    pub fn to_json(&self) -> Value {
        let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
        let mut steps: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, counter) in &self.steps {
            let ran = counter.load(Ordering::Relaxed);
            steps.insert(format!("{kind:?}").to_lowercase(), ran);
            for (object, groups) in self.objects.get(kind).into_iter().flatten() {
                *calls.entry(object).or_default() += ran * groups;
            }
        }
        let mut told = self.told.clone();
        told["steps"] = json!(steps);
        told["calls"] = json!(calls);
        told
    }
}

/// An engine whose steps are counted.
pub struct Counted {
    engine: Box<dyn Engine>,
    facts: Arc<EngineFacts>,
}

impl Counted {
    pub fn new(engine: Box<dyn Engine>) -> (Self, Arc<EngineFacts>) {
        let facts = Arc::new(EngineFacts::of(&*engine));
        (Self { engine, facts: facts.clone() }, facts)
    }
}

impl Executor for Counted {
    fn limits(&self) -> Limits {
        self.engine.limits()
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        let output = self.engine.step(batch)?;
        if let Some(counter) = self.facts.steps.get(&batch.kind) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(output)
    }
}
