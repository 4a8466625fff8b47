//! One file for each subcommand.

pub mod evaluate;
pub mod probe;
pub mod profile;
pub mod serve;
mod tensor_file;

use enginewright_core::error::EngineError;
use enginewright_core::executor::Engine;
use enginewright_serve::load_engine;
use std::path::PathBuf;

/// Which engine, with which weights.
#[derive(clap::Args)]
pub struct EngineArguments {
    /// The engine's folder
    #[arg(long)]
    pub engine: PathBuf,
    /// The checkpoint's folder [default: `weights` in the engine's folder]
    #[arg(long)]
    pub checkpoint: Option<PathBuf>,
    /// Threads, instead of the plan's number
    #[arg(long)]
    pub threads: Option<usize>,
}

impl EngineArguments {
    /// Loads the engine.
    pub fn load(&self) -> Result<Box<dyn Engine>, EngineError> {
        let weights = self.engine.join("weights");
        let checkpoint = self.checkpoint.as_deref().unwrap_or(&weights);
        load_engine(&self.engine, checkpoint, self.threads)
    }
}
