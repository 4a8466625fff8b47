//! Elementwise ops that a plan fuses with nothing. Family: elementwise. Lanes: vector_avx2.
//!
//!   add: a + b   silu_mul: silu(a) * b   gelu: x * (1 + erf(x / sqrt 2)) / 2, or its tanh form   select_rows: x[wanted]
//!
//! Bound: memory.
//! Shared code: float_elementwise_work (what a row needs), float_rows (what the host calls).
//!
//! ```toml
//! name = "elementwise_avx2"
//! pattern = "add|silu_mul|gelu|select_rows"
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
#[path = "float_curves.rs"]
mod curves;
#[path = "float_norms.rs"]
mod norms;
#[path = "float_rows.rs"]
mod row_exports;
#[path = "vector_avx2.rs"]
mod vector;
#[path = "float_elementwise_work.rs"]
mod work;
