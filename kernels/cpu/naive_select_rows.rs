//! The wanted rows of x, in the order asked for.
//!
//! ```toml
//! name = "naive_select_rows"
//! pattern = "select_rows"
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
        for number in own_rows(call, thread) {
            let wanted = *(*call.step).selected_rows.add(number) as usize;
            row_mut(call.outputs[0], number, WIDTH).copy_from_slice(row(call.inputs[0], wanted, WIDTH));
        }
    }
}
