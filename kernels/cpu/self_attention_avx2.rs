//! Attention both ways within a segment. Family: attention; lanes: vector_avx2.
//!
//!   a[r, h] = sum over rows s of the segment of softmax over s of (scale * q[r, h] . k[s, h]) * v[s, h]
//!
//! Bound: multiply-adds, 4 * head_dim * heads for each pair of rows of a segment. Lanes are rows, so neither keys nor
//! weights are turned, and the softmax stays inside its lane.
//! Shared code: float_attention_rows (blocks and threads), float_attention_tile (registers), float_attention_group.
//!
//! ```toml
//! name = "self_attention_avx2"
//! pattern = "self_attention"
//! steps = ["encode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = []
//! constraints = ["OP_HEAD_DIM % 16 == 0"]
//! [parameters.VECTORS]
//! values = [1, 2, 3]
//! default = 2
//! help = "vectors of rows that a key is broadcast for"
//! [parameters.KEYS]
//! values = [16, 32, 64, 128]
//! default = 32
//! help = "keys between two looks at the running maximum"
//! [parameters.DEPTH]
//! values = [2, 4]
//! default = 4
//! help = "keys, or columns of values, in registers together; DEPTH * VECTORS + VECTORS + 1 registers"
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[macro_use]
#[path = "float_constants.rs"]
mod constants;
#[path = "float_attention_group.rs"]
mod attention_group;
#[path = "float_attention_rows.rs"]
mod attention_rows;
#[path = "float_attention_tile.rs"]
mod attention_tile;
#[path = "float_curves.rs"]
mod curves;
#[path = "vector_avx2.rs"]
mod vector;
