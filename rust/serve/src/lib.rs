//! The HTTP server of an engine. The engine thread owns the executor and never meets async code.

mod answer;
mod api_error;
mod engine_thread;
mod metrics;
mod request;
mod routes;
mod scores;
mod server;
mod state;

pub use server::{Loaded, ServeArguments, folder_engine, run};
