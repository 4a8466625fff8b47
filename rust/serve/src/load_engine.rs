//! The engine in a folder, on the device that its plan names.

use enginewright_core::error::EngineError;
use enginewright_core::executor::Engine;
use enginewright_core::graph::Graph;
use enginewright_core::plan::{Device, Plan};
use enginewright_cpu::{CpuExecutor, Options};
use enginewright_cuda::CudaExecutor;
use std::path::Path;

/// Loads the engine in `engine` with the weights in `checkpoint`; `threads` instead of the plan's number.
///
/// # Errors
/// Whatever is wrong with its files, kernels or this machine.
pub fn load_engine(
    engine: &Path,
    checkpoint: &Path,
    threads: Option<usize>,
) -> Result<Box<dyn Engine>, EngineError> {
    let graph = Graph::load(&engine.join("graph.json"))?;
    match Plan::load(&engine.join("plan.json"), &graph)?.device {
        Device::Cpu => {
            let options = Options { threads, ..Options::default() };
            Ok(Box::new(CpuExecutor::load(engine, checkpoint, &options)?))
        }
        Device::Cuda => Ok(Box::new(CudaExecutor::load(engine, checkpoint)?)),
    }
}
