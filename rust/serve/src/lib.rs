//! The HTTP server of an engine. The engine thread owns the executor and never meets async code.

mod answer;
mod api_error;
mod engine_thread;
mod fields;
mod loading;
mod metrics;
mod request;
mod routes;
mod scores;
mod server;
pub mod shipped;
mod state;

pub use enginewright_cpu::KernelTable;
pub use enginewright_cpu::abi::Call;
pub use server::{Loaded, ServeArguments, folder_engine, run};
