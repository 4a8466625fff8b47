//! The CPU executor: kernel objects, packed weights, the buffer arena, the thread pool.

#[path = "../../../kernels/cpu/abi.rs"]
pub mod abi;
pub mod cores;
pub mod executor;
mod kernel;
pub mod measure;
mod memory;
mod packing;
mod pool;
pub mod processor;
mod program;

pub use executor::{CpuExecutor, Options};
pub use kernel::{KernelSource, KernelTable};
