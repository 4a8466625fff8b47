//! Runs a program that nobody trusts: namespaces, a root of its own, Landlock, seccomp, limits, and an end for its whole
//! tree of processes. docs/sandbox.md says what each layer keeps in and what it does not.

mod cgroup;
mod limits;
mod policy;
mod probe;
mod restrict;
mod root;
mod supervise;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "enginewright-sandbox", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command under a policy; ends as the command ends
    Run {
        /// Policy: JSON, or a file of it
        #[arg(long)]
        policy: String,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Say which layers this machine gives, as JSON
    Probe,
    /// Do nothing
    #[command(hide = true)]
    Nothing,
}

/// Exit status when the sandbox itself fails: the command did not run.
pub const SANDBOX_FAILED: u8 = 125;

fn main() -> ExitCode {
    let ran = match Arguments::parse().command {
        Command::Run { policy, command } => supervise::run(&policy, &command),
        Command::Probe => probe::run(),
        Command::Nothing => Ok(ExitCode::SUCCESS),
    };
    ran.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(SANDBOX_FAILED)
    })
}
