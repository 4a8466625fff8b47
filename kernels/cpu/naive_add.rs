//! y = a + b; float32.
//!
//! ```toml
//! name = "naive_add"
//! pattern = "add"
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

const WIDTH: usize = constant!("EW_OP0_WIDTH", 576);

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
        // Both inputs may be one buffer: then the group has a single input.
        let second = if call.inputs[1].is_null() { call.inputs[0] } else { call.inputs[1] };
        for number in own_rows(call, thread) {
            let (a, b) = (row(call.inputs[0], number, WIDTH), row(second, number, WIDTH));
            let y = row_mut(call.outputs[0], number, WIDTH);
            for i in 0..WIDTH {
                y[i] = a[i] + b[i];
            }
        }
    }
}
