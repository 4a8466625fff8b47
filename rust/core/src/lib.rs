//! Graph, plan, weights, sessions and sampling: no async, no HTTP, nothing of a device.

pub mod error;
pub mod executor;
