//! Graph, plan, weights, sessions and sampling: no async, no HTTP, nothing of a device.

pub mod arena;
pub mod batch;
pub mod cache;
pub mod dtype;
pub mod error;
pub mod executor;
pub mod graph;
mod graph_check;
mod op_check;
pub mod plan;
mod plan_check;
mod read_json;
pub mod sampling;
pub mod scheduler;
mod scheduler_rows;
pub mod session;
pub mod weights;
pub mod wiring;
