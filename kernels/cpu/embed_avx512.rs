//! Rows of tables, added, perhaps normalised. Family: embed. Lanes: vector_avx512.
//!
//!   x[r] = sum over tables of table[token, position + offset, or 0]; then perhaps layer_norm
//!
//! Bound: memory; a row of each table is read once, as stored.
//! Shared code: float_embed_work (what a row needs), float_rows (what the host calls).
//!
//! ```toml
//! name = "embed_avx512"
//! pattern = "embed layer_norm?"
//! steps = ["prefill", "decode", "encode"]
//! requires = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "f16c"]
//! numerics = []
//! matrices = ["f32", "f16", "bf16", "q8_0"]
//! layout = "stored"
//! constraints = ["OP_WIDTH % 32 == 0"]
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
#[path = "vector_avx512.rs"]
mod vector;
#[path = "float_embed_work.rs"]
mod work;
