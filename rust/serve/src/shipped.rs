//! The main program of a shipped engine: everything but the weights, and on request those too, is inside.

use crate::server::{Loaded, ServeArguments, run};
use clap::{Parser, Subcommand};
use enginewright_core::graph::Graph;
use enginewright_core::plan::Plan;
use enginewright_core::weights::Checkpoint;
use enginewright_cpu::{CpuExecutor, KernelSource, KernelTable, Options};
use enginewright_text::Tokenizer;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a shipped program carries inside.
pub struct Parts {
    /// `graph.json`.
    pub graph: &'static str,
    /// `plan.json`, with the objects of its groups.
    pub plan: &'static str,
    /// `tokenizer.json`.
    pub tokenizer: &'static [u8],
    /// `manifest.json`: where all this came from.
    pub manifest: &'static str,
    /// The kernels, by object.
    pub kernels: &'static [(&'static str, KernelTable)],
    /// The checkpoint's files in the graph's order, if they are inside.
    pub weights: Option<&'static [&'static [u8]]>,
}

#[derive(Parser)]
#[command(about = "An inference engine made by Enginewright", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the engine over HTTP, with OpenAI's routes
    Serve {
        /// Folder of the weights [default: `weights` beside this program]
        #[arg(long)]
        weights: Option<PathBuf>,
        #[command(flatten)]
        serve: ServeArguments,
    },
    /// Print where this engine came from: hashes, toolchain, evidence
    Manifest,
}

/// Runs a shipped program.
pub fn main(parts: &Parts) -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve { weights, serve } => run(&serve, |serve| load(parts, weights, serve.threads)),
        Command::Manifest => {
            println!("{}", parts.manifest);
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(6)
        }
    }
}

fn load(parts: &Parts, weights: Option<PathBuf>, threads: Option<usize>) -> anyhow::Result<Loaded> {
    let graph = Graph::from_text("graph.json (inside)", parts.graph)?;
    let plan = Plan::from_text("plan.json (inside)", parts.plan, &graph)?;
    let checkpoint = match parts.weights {
        Some(files) => Checkpoint::embedded(files, &graph)?,
        None => {
            let folder = match weights {
                Some(folder) => folder,
                None => std::env::current_exe()?.with_file_name("weights"),
            };
            Checkpoint::open(&folder, &graph)?
        }
    };
    let tokenizer = Tokenizer::from_bytes("tokenizer.json (inside)", parts.tokenizer)?;
    let options = Options { threads, ..Options::default() };
    let kernels = KernelSource::Linked(parts.kernels);
    let executor = CpuExecutor::assemble(graph.clone(), plan, checkpoint, kernels, &options)?;
    Ok(Loaded { engine: Box::new(executor), graph, tokenizer })
}
