//! The CUDA executor: cubins, device memory planned up front, a whole step as one CUDA graph.
//!
//! The driver is looked for when an engine that wants it is loaded: the same program runs where there is none.

pub mod abi;
mod device;
mod executor;
mod kernel;
mod memory;
mod program;

pub use device::DeviceFacts;
pub use executor::CudaExecutor;
