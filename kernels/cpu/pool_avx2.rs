//! One row for each sequence, perhaps scaled to length 1. Family: pool. Lanes: vector_avx2.
//!
//!   mean_pool: mean of the segment's rows, summed in order   first_pool: its first row   l2_norm: x / max(|x|, epsilon)
//!
//! Bound: memory; each row is read once.
//! Shared code: float_pool_work (what a row needs), float_rows (what the host calls).
//!
//! ```toml
//! name = "pool_avx2"
//! pattern = "mean_pool l2_norm?|first_pool l2_norm?|l2_norm"
//! steps = ["prefill", "decode", "encode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = []
//! rows = ["tokens", "selected", "segments"]
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
#[path = "float_pool_work.rs"]
mod work;
