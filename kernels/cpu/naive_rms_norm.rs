//! y = x / sqrt(mean(x^2) + epsilon) * w; float32, sums in sixteen lanes.
//!
//! ```toml
//! name = "naive_rms_norm"
//! pattern = "rms_norm"
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

const WIDTH: usize = constant!("EW_OP0_WIDTH", 576);
const EPSILON: f32 = float_constant!("EW_OP0_EPSILON_BITS", 1e-5);

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
        let w = row(call.weights[0].cast(), 0, WIDTH);
        for number in own_rows(call, thread) {
            let x = row(call.inputs[0], number, WIDTH);
            let factor = 1.0 / (dot(x, x) / WIDTH as f32 + EPSILON).sqrt();
            let y = row_mut(call.outputs[0], number, WIDTH);
            for i in 0..WIDTH {
                y[i] = x[i] * factor * w[i];
            }
        }
    }
}
