//! y[h] = x[h] / sqrt(mean(x[h]^2) + epsilon) * w * silu(z[h]) for each head h of a row; float32, sums in sixteen lanes.
//!
//! ```toml
//! name = "naive_gated_norm"
//! pattern = "gated_norm"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;
#[path = "naive_sum.rs"]
mod sum;

use abi::Call;
use rows::{own_rows, row, row_mut};
use sum::dot;

const HEADS: usize = constant!("EW_OP0_HEADS", 4);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 64);
const EPSILON: f32 = float_constant!("EW_OP0_EPSILON_BITS", 1e-6);

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, _threads: u32) -> usize {
    0
}

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let w = row(call.weights[0].cast(), 0, HEAD_DIM);
        for number in own_rows(call, thread) {
            for head in number * HEADS..(number + 1) * HEADS {
                let (x, z) = (row(call.inputs[0], head, HEAD_DIM), row(call.inputs[1], head, HEAD_DIM));
                let factor = 1.0 / (dot(x, x) / HEAD_DIM as f32 + EPSILON).sqrt();
                let y = row_mut(call.outputs[0], head, HEAD_DIM);
                for i in 0..HEAD_DIM {
                    y[i] = x[i] * factor * w[i] * (z[i] / (1.0 + (-z[i]).exp()));
                }
            }
        }
    }
}
