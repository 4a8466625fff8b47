//! The HTTP server of an engine. The engine thread owns the executor and never meets async code.

mod answer;
mod api_error;
mod engine_facts;
mod engine_thread;
mod fields;
mod load_engine;
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
pub use load_engine::load_engine;
pub use server::{Loaded, ServeArguments, folder_engine, run};
