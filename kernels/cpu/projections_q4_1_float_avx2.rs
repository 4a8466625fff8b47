//! Products of rows with Q4_1 matrices, float32 activations; AVX2 with FMA and F16C.
//!
//!   y[r, n] = sum over blocks b of 32 inputs: scale[n, b] * (w[n, b] . x[r, b]) + what the format adds
//!   x: [rows, IN] float32      w: scale * nibble + minimum, 20 bytes for 32 inputs      y: [rows, OUT] float32
//!
//! No approximation: weights become float32 in registers. Bound: turning bytes into floats, then memory.
//! One lane for each of 16 output rows: no sum across lanes, scales are vectors. Around the products, in the same pass:
//! norm, choice of rows, bias, residual, silu(gate) * up, or rotation and cache write.
//!
//! ```toml
//! name = "projections_q4_1_float_avx2"
//! pattern = "select_rows? rms_norm? (linear{1,3}|linear add|linear linear silu_mul|linear linear linear rope rope kv_write)"
//! matrices = ["q4_1"]
//! layout = "q4_1.x16"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = []
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = [
//!     "OP_IN % 32 == 0",
//!     "OP_HEAD_DIM % 16 == 0",
//!     "OP_ROTARY % 2 == 0 and (OP_PAIRING == 'adjacent' or OP_ROTARY % 32 == 0)",
//! ]
//! [parameters.TILE]
//! values = [1, 2, 4, 6, 8]
//! default = 4
//! help = "rows that a block of weights is unpacked for"
//! [parameters.PREFETCH]
//! values = [0, 1024, 2048, 4096, 8192]
//! default = 4096
//! help = "bytes ahead of the weights in use that are asked for; 0 = none (applies to tiles of up to 2 rows)"
//! [parameters.PREFETCH_LEVEL]
//! values = [1, 2]
//! default = 1
//! help = "cache level that weights are asked into; the second has more requests in flight"
//! [parameters.SHARE_ABOVE]
//! values = [0, 1, 2, 4, 8]
//! default = 8
//! help = "steps of more rows share out norm and quantising, at the price of a barrier"
//! [parameters.ROW_BLOCK]
//! values = [32, 64, 128, 256, 512]
//! default = 256
//! help = "rows whose activations stay in cache while all weights pass"
//! [parameters.TICKET_UNITS]
//! values = [0, 1, 2, 4, 8]
//! default = 0
//! help = "panels a thread takes at a time; 0 = an even share for each thread"
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "quantised_curves.rs"]
mod curves;
#[path = "quantised_finish.rs"]
mod finish;
#[path = "quantised_group.rs"]
mod group;
#[path = "quantised_layout.rs"]
mod layout;
#[path = "quantised_one_type.rs"]
mod matrices;
#[path = "layout_nibbles.rs"]
mod nibbles;
#[path = "layout_q4_1.rs"]
mod packed;
#[path = "quantised_panels.rs"]
mod panels;
#[path = "quantised_rows_float.rs"]
mod rows;
#[path = "quantised_run.rs"]
mod run;
#[path = "simd_avx2.rs"]
mod simd;
#[path = "quantised_tile_float.rs"]
mod tile;
