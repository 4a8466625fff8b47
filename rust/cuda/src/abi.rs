//! The contract between the host and a CUDA kernel: `kernels/cuda/abi.cuh`, byte for byte.

use enginewright_core::wiring::{MAX_BUFFERS, MAX_WEIGHTS};

/// Version of the contract.
pub const ABI: u32 = 2;
/// Most phases of a kernel.
pub const MAX_PHASES: usize = 4;

/// An address in device memory; 0 is none.
pub type Address = u64;

/// The rows of one step.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Step {
    pub rows: u32,
    pub segments: u32,
    pub selected: u32,
    pub unused: u32,
    pub token_ids: Address,
    pub positions: Address,
    pub slots: Address,
    pub starts: Address,
    pub selected_rows: Address,
}

/// Keys and values of one layer.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Cache {
    pub keys: Address,
    pub values: Address,
    pub slot_bytes: u64,
    pub capacity: u64,
}

/// One launch of one group.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    pub step: Address,
    pub inputs: [Address; MAX_BUFFERS],
    pub outputs: [Address; MAX_BUFFERS],
    pub weights: [Address; MAX_WEIGHTS],
    pub cache: Cache,
    pub scratch: Address,
}

/// How one phase is launched.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Phase {
    pub threads: u32,
    pub blocks: u32,
    pub rows_per_block: u32,
    pub shared_bytes: u32,
    /// Not 0 if the launch may start while the one before it still runs.
    pub early: u32,
}

/// What a kernel says of itself.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Info {
    pub abi: u32,
    pub phases: u32,
    pub phase: [Phase; MAX_PHASES],
    pub packed_bytes: [u64; MAX_WEIGHTS],
    pub scratch_bytes_per_row: u64,
    pub pack_blocks: u32,
    pub pack_threads: u32,
}
