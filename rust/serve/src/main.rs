//! `enginewright-engine`: serves, evaluates and profiles one engine folder; probes the machine.

mod commands;

use clap::{Parser, Subcommand};
use enginewright_core::error::EngineError;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "enginewright-engine", version, about = "Runs a compiled Enginewright engine")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the engine over HTTP, with OpenAI's routes
    Serve(commands::serve::Arguments),
    /// Run sequences of token ids through the engine and write logits or embeddings
    Evaluate(commands::evaluate::Arguments),
    /// Time each group of one step
    Profile(commands::profile::Arguments),
    /// Measure this machine: features, cores, caches, read bandwidth, peak float32 arithmetic
    Probe(commands::probe::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Evaluate(arguments) => commands::evaluate::run(&arguments),
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Probe(arguments) => commands::probe::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

/// 5 = this machine lacks something, 6 = the engine or its input is at fault (as in `enginewright/errors.py`).
fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<EngineError>() {
        Some(EngineError::Processor { .. } | EngineError::Memory { .. }) => 5,
        _ => 6,
    }
}
