//! The first row of each segment.
//!
//! ```toml
//! name = "naive_first_pool"
//! pattern = "first_pool"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::Call;
use rows::{own_rows, row, row_mut};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 384);

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
        for segment in own_rows(call, thread) {
            let start = *(*call.step).starts.add(segment) as usize;
            row_mut(call.outputs[0], segment, WIDTH).copy_from_slice(row(call.inputs[0], start, WIDTH));
        }
    }
}
