//! `serve`: the HTTP server on one engine folder.

use enginewright_serve::{ServeArguments, folder_engine};
use std::path::PathBuf;

/// Which engine, and how to serve it.
#[derive(clap::Args)]
pub struct Arguments {
    /// The engine's folder
    #[arg(long)]
    engine: PathBuf,
    /// The checkpoint's folder [default: `weights` in the engine's folder]
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArguments,
}

/// Serves until a signal.
///
/// # Errors
/// As [`enginewright_serve::run`].
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    enginewright_serve::run(&arguments.serve, |serve| {
        let weights = arguments.engine.join("weights");
        let checkpoint = arguments.checkpoint.as_deref().unwrap_or(&weights);
        folder_engine(&arguments.engine, checkpoint, serve.threads)
    })
}
