//! y[h] = x[h][FIRST .. FIRST + COUNT] for each head h of a row.
//!
//! ```toml
//! name = "naive_head_slice"
//! pattern = "head_slice"
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

const HEADS: usize = constant!("EW_OP0_HEADS", 4);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 64);
const FIRST: usize = constant!("EW_OP0_FIRST", 0);
const COUNT: usize = constant!("EW_OP0_COUNT", 32);

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
            for head in number * HEADS..(number + 1) * HEADS {
                let x = row(call.inputs[0], head, HEAD_DIM);
                row_mut(call.outputs[0], head, COUNT).copy_from_slice(&x[FIRST..FIRST + COUNT]);
            }
        }
    }
}
