//! Products of rows with Q4_K and Q6_K matrices, activations in 8 bits; AVX2 with FMA and F16C.
//!
//!   y[r, n] = sum over parts p: scale[n, p] * scale_x[r, b] * (w[n, p] . q[r, p]) - minimum[n, p] * scale_x[r, b] * sum(q[r, p])
//!   q = round(x / scale_x), scale_x one for each block b of 32 inputs      x: [rows, IN] float32      y: [rows, OUT] float32
//!   Q4_K: parts of 32 inputs, w 0 to 15, scale and minimum a float16 of 256 inputs times six bits; 144 bytes for 256 inputs
//!   Q6_K: parts of 16 inputs, w -32 to 31, no minimum, scale a float16 of 256 inputs times eight bits; 210 bytes
//!
//! llama.cpp rounds activations in front of these types in blocks of 256; blocks of 32 are finer. Scales of parts are
//! exact in float32, integer sums are exact, so the tiers agree to the last bit. The matrices of a group may differ in
//! type, as they do in files of llama.cpp's Q4_K_M.
//! Bound: memory in decode (each weight byte once a step); integer products in prefill, where a block of weights is
//! unpacked once for TILE rows.
//! One lane for each of 16 output rows: no sum across lanes, scales are vectors. Around the products, in the same pass:
//! norm, choice of rows, bias, residual, silu(gate) * up, or rotation and cache write.
//!
//! ```toml
//! name = "projections_k_quants_avx2"
//! pattern = "select_rows? rms_norm? (linear{1,3}|linear add|linear linear silu_mul|linear linear linear rope rope kv_write)"
//! matrices = ["q4_k", "q6_k"]
//! layout = "{dtype}.x16"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = ["activations_q8"]
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = [
//!     "OP_IN % 256 == 0",
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
#[path = "quantised_k_types.rs"]
mod matrices;
#[path = "layout_nibbles.rs"]
mod nibbles;
#[path = "quantised_panels.rs"]
mod panels;
#[path = "layout_q4_k.rs"]
mod q4_k;
#[path = "layout_q6_k.rs"]
mod q6_k;
#[path = "quantised_rows_int8.rs"]
mod rows;
#[path = "quantised_run.rs"]
mod run;
#[path = "simd_avx2.rs"]
mod simd;
#[path = "quantised_tile_int8.rs"]
mod tile;
