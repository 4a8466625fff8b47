//! Rotation of queries and keys, and writing to the cache. Family: attention. Lanes: vector_avx2.
//!
//!   (a, b) -> magnitude * (a cos - b sin, b cos + a sin) for pairs of a head; k, v -> cache[slot, position]
//!
//! Bound: memory. One row's cosines and sines serve all its heads; angles as the naive kernel has them, float64 inside.
//! Shared code: float_cache_work (what a row needs), float_rows (what the host calls).
//!
//! ```toml
//! name = "attention_cache_avx2"
//! pattern = "rope|kv_write|rope{1,2} kv_write"
//! steps = ["prefill", "decode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = []
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = ["OP_HEAD_DIM % 16 == 0"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[macro_use]
#[path = "float_constants.rs"]
mod constants;
#[path = "float_angles.rs"]
mod angles;
#[path = "float_rows.rs"]
mod row_exports;
#[path = "vector_avx2.rs"]
mod vector;
#[path = "float_cache_work.rs"]
mod work;
