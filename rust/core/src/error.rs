//! Everything that this crate can report.

/// What went wrong while loading or running an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A file of the engine could not be read.
    #[error("cannot read {path}: {reason}\nhint: {hint}")]
    File { path: String, reason: String, hint: String },
    /// A file was read, but what it says cannot be.
    #[error("{path}: `{field}` is {value}; expected {expected}\nhint: {hint}")]
    Invalid { path: String, field: String, value: String, expected: String, hint: String },
    /// A kernel object could not be loaded or does not keep the contract.
    #[error("kernel {kernel}: {reason}\nhint: {hint}")]
    Kernel { kernel: String, reason: String, hint: String },
    /// The processor lacks what the plan's kernels need.
    #[error("this processor lacks {missing}, which the engine's kernels need\nhint: {hint}")]
    Processor { missing: String, hint: String },
    /// A batch breaks a limit of the plan: nothing was run.
    #[error("batch refused: {reason}")]
    Batch { reason: String },
    /// The device or its driver failed: the executor must be dropped.
    #[error("{call} failed on the device: {reason}\nhint: {hint}")]
    Device { call: String, reason: String, hint: String },
    /// Memory could not be had.
    #[error("cannot allocate {bytes} bytes for {purpose}\nhint: {hint}")]
    Memory { bytes: usize, purpose: String, hint: String },
}
