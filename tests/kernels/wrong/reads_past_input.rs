//! Negative control: the sum of the last row takes in a value behind it.
//!
//! ```toml
//! name = "reads_past_input"
//! pattern = "rms_norm"
//! steps = ["prefill"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "right_norm.rs"]
mod norm;
#[path = "naive_rows.rs"]
mod rows;

use abi::Call;
use norm::{WIDTH, write_row};
use rows::own_rows;

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
        for row in own_rows(call, thread) {
            write_row(call, row);
            let extra = *call.inputs[0].add((row + 1) * WIDTH) * 0.0;
            *call.outputs[0].add(row * WIDTH) += extra;
        }
    }
}
