//! The waist: everything that a server may ask of an engine. The engine thread owns the executor.

use crate::error::EngineError;
use crate::graph::{Graph, ModelKind};
use crate::plan::Plan;
use std::sync::atomic::AtomicU64;

/// Which of the plan's step graphs a batch runs through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Prompt tokens of one or more sequences (decoders).
    Prefill,
    /// One token each of one or more sequences (decoders).
    Decode,
    /// Whole sequences, no cache (encoders).
    Encode,
}

/// Rows of several sequences laid end to end, without padding.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    pub kind: StepKind,
    /// Token ids, `[rows]`.
    pub token_ids: &'a [u32],
    /// Position of each row in its sequence, `[rows]`.
    pub positions: &'a [u32],
    /// Cache slot of each row, `[rows]`.
    pub slots: &'a [u32],
    /// First row of each segment, then the number of rows: `[segments + 1]`.
    pub starts: &'a [u32],
    /// Rows whose output is wanted, `[selected]`; ignored by encoders, which give one output a segment.
    pub selected_rows: &'a [u32],
}

/// What a plan has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most rows of one prefill or encode step.
    pub prefill_rows: usize,
    /// Most rows of one decode step; 0 for encoders.
    pub decode_rows: usize,
    /// Most selected rows of one prefill step.
    pub prefill_selected: usize,
    /// Cache slots (sequences alive at once); 0 for encoders.
    pub slots: usize,
    /// Positions a sequence may have.
    pub context: usize,
    /// Width of an output row: the vocabulary, or the embedding.
    pub output_width: usize,
}

impl Limits {
    /// What a plan has room for.
    pub fn of(graph: &Graph, plan: &Plan) -> Self {
        let rows = |kind| plan.steps.get(&kind).map_or(0, |step| step.rows as usize);
        let is_encoder = graph.kind == ModelKind::Encoder;
        let prefill = if is_encoder { StepKind::Encode } else { StepKind::Prefill };
        let selected = plan.steps.get(&prefill).map_or(0, |step| step.selected as usize);
        Self {
            prefill_rows: rows(prefill),
            decode_rows: rows(StepKind::Decode),
            prefill_selected: if is_encoder { rows(prefill) } else { selected },
            slots: if is_encoder { 0 } else { plan.cache.slots as usize },
            context: plan.context(graph),
            output_width: graph.output_width(),
        }
    }
}

/// Runs steps. One executor owns one device; calls come from one thread.
pub trait Executor: Send {
    fn limits(&self) -> Limits;

    /// Runs one step and returns its output, float32 `[selected | segments, output_width]`, row-major, valid until
    /// the next call. Allocates nothing.
    ///
    /// # Errors
    /// [`EngineError::Batch`] if the batch breaks a limit or is malformed: nothing was run.
    /// [`EngineError::Device`] if the device failed: the executor must be dropped.
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError>;
}

/// An executor that tells what it runs, and can be timed group by group.
pub trait Engine: Executor {
    /// What the engine computes.
    fn graph(&self) -> &Graph;

    /// How the engine computes it.
    fn plan(&self) -> &Plan;

    /// Threads in use, the caller's included.
    fn threads(&self) -> usize;

    /// Takes `slot` for one that holds `positions`, though nothing of them was run: for timing only.
    fn pretend_held(&mut self, slot: usize, positions: u32);

    /// Runs one step like [`Executor::step`], and adds each group's nanoseconds to `clock`, `[groups]`.
    ///
    /// # Errors
    /// As [`Executor::step`]; [`EngineError::Batch`] too if `clock` has another length: nothing was run.
    fn step_timed(&mut self, batch: &Batch<'_>, clock: &[AtomicU64]) -> Result<&[f32], EngineError>;
}

impl Executor for Box<dyn Executor> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        (**self).step(batch)
    }
}
