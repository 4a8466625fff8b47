//! Norms of rows, perhaps after a sum. Family: norm. Lanes: vector_avx2.
//!
//!   rms_norm:   y = x * w / sqrt(mean(x^2) + epsilon)
//!   head_norm:  rms_norm of each head of the row
//!   layer_norm: y = (x - mean) / sqrt(variance + epsilon) * w + b
//!
//! Bound: memory; a row is read once from far and again from the first-level cache. Sums in float32, sixteen or more
//! partial sums in an order that depends on the width only.
//! Shared code: float_norm_work (what a row needs), float_rows (what the host calls).
//!
//! ```toml
//! name = "norm_avx2"
//! pattern = "add? layer_norm|add? rms_norm|head_norm"
//! steps = ["prefill", "decode", "encode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = []
//! rows = ["tokens", "selected"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[macro_use]
#[path = "float_constants.rs"]
mod constants;
#[path = "float_norms.rs"]
mod norms;
#[path = "float_rows.rs"]
mod row_exports;
#[path = "vector_avx2.rs"]
mod vector;
#[path = "float_norm_work.rs"]
mod work;
