//! Products of rows with float matrices. Family: float_linear; lanes: vector_avx512.
//!
//!   y[r, n] = sum over k of x[r, k] * w[n, k], one chain of fused multiply-adds in the order of k
//!
//! Bound: memory for a few rows (every weight byte once a step), multiply-adds for many (2 * rows * in * out).
//!
//! file            lanes     tile by default   why it exists
//!   ..._avx2        8         6 rows x 16       fits sixteen registers
//!   ..._avx512     16         8 rows x 48       24 sums in 32 registers: two multiply-adds a cycle, 11 loads for 24
//!
//! Shared code: float_linear_run (phases and blocks), float_linear_tile (registers), float_panels (layout).
//!
//! ```toml
//! name = "float_linear_avx512"
//! pattern = "rms_norm? linear{1,3}|select_rows? rms_norm? linear|linear gelu|linear add layer_norm?|rms_norm? linear linear silu_mul"
//! matrices = ["f32", "f16", "bf16"]
//! rows = ["tokens", "selected"]
//! layout = "{dtype}.x16"
//! steps = ["prefill", "decode", "encode"]
//! requires = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "f16c"]
//! numerics = []
//! constraints = []
//! [parameters.TILE]
//! values = [4, 6, 8, 9, 12, 14]
//! default = 8
//! help = "rows of a register tile"
//! [parameters.VECTORS]
//! values = [1, 2, 3, 4]
//! default = 3
//! help = "vectors of outputs of a register tile; TILE * VECTORS + VECTORS + 1 registers"
//! [parameters.UNROLL]
//! values = [1, 2, 4, 8]
//! default = 4
//! help = "inputs for each turn of the inner loop"
//! [parameters.PREFETCH]
//! values = [0, 8, 16, 32]
//! default = 0
//! help = "inputs that weights are asked for ahead; 0 leaves it to the processor"
//! [parameters.INPUT_BLOCK]
//! values = [128, 192, 256, 384, 0]
//! default = 384
//! help = "inputs after which sums rest in the output; 0 never"
//! [parameters.ROW_BLOCK]
//! values = [48, 96, 192, 384]
//! default = 192
//! help = "rows whose activations stay in the second-level cache"
//! [parameters.APART]
//! values = [32, 96, 100000]
//! default = 96
//! help = "rows for each thread from which threads share out rows and not columns"
//! [parameters.SHARE_ABOVE]
//! values = [0, 8, 32]
//! default = 8
//! help = "steps of more rows share out the norm in front"
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[macro_use]
#[path = "float_constants.rs"]
mod constants;
#[path = "float_curves.rs"]
mod curves;
#[path = "float_linear_group.rs"]
mod linear_group;
#[path = "float_linear_run.rs"]
mod linear_run;
#[path = "float_linear_tile.rs"]
mod linear_tile;
#[path = "float_norms.rs"]
mod norms;
#[path = "float_panels.rs"]
mod panels;
#[path = "vector_avx512.rs"]
mod vector;
