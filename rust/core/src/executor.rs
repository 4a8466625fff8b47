//! The waist: everything that a server may ask of an engine. The engine thread owns the executor.

use crate::error::EngineError;

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

/// Runs steps. One executor owns one device; calls come from one thread.
pub trait Executor: Send {
    fn limits(&self) -> Limits;

    /// Runs one step and returns its output, float32 `[selected | segments, output_width]`, row-major, valid until
    /// the next call. Allocates nothing.
    ///
    /// # Errors
    /// [`EngineError::Batch`] if the batch breaks a limit or is malformed: nothing was run.
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError>;
}

impl Executor for Box<dyn Executor> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        (**self).step(batch)
    }
}
