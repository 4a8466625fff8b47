//! y = gate / (1 + exp(-gate)) * up; float32.
//!
//! ```toml
//! name = "naive_silu_mul"
//! pattern = "silu_mul"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::Call;
use rows::{own_rows, row, row_mut};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 1536);

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
        for number in own_rows(call, thread) {
            let (gate, up) = (row(call.inputs[0], number, WIDTH), row(call.inputs[1], number, WIDTH));
            let y = row_mut(call.outputs[0], number, WIDTH);
            for i in 0..WIDTH {
                y[i] = gate[i] / (1.0 + (-gate[i]).exp()) * up[i];
            }
        }
    }
}
