//! Attention of generated tokens over the cache. Family: attention; lanes: vector_avx2.
//!
//!   a[r, h] = sum over p of softmax over p of (scale * q[r, h] . k[p, h / group]) * v[p, h / group]
//!
//! Bound: memory; the least traffic is the keys and values of each row's positions, once. Query heads that share a head
//! of keys are computed together, and positions are cut into parts so that threads share even a single row evenly.
//! Shared code: float_attention_decode (the whole of it), float_attention_group (shapes and the cache).
//!
//! ```toml
//! name = "attention_decode_avx2"
//! pattern = "attention"
//! steps = ["decode"]
//! requires = ["avx2", "fma", "f16c"]
//! numerics = []
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = ["OP_HEAD_DIM % 16 == 0"]
//! [parameters.BLOCK]
//! values = [16, 32, 64, 128]
//! default = 32
//! help = "positions between two looks at the running maximum"
//! [parameters.PARTS]
//! values = [4, 8, 16, 32]
//! default = 16
//! help = "most parts that the positions of a row are cut into"
//! [parameters.PREFETCH]
//! values = [0, 8, 16, 32]
//! default = 0
//! help = "positions that keys are asked for ahead; 0 leaves it to the processor"
//! [parameters.TICKET_UNITS]
//! values = [0, 1, 3, 6]
//! default = 0
//! help = "units a thread takes at a time; 0 divides them evenly beforehand"
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[macro_use]
#[path = "float_constants.rs"]
mod constants;
#[path = "float_attention_decode.rs"]
mod attention_decode;
#[path = "float_attention_group.rs"]
mod attention_group;
#[path = "float_curves.rs"]
mod curves;
#[path = "vector_avx2.rs"]
mod vector;
