//! Negative control: a row's last bits depend on how many rows the call has.
//!
//! ```toml
//! name = "depends_on_company"
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
use rows::{own_rows, row_mut};

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
            let factor = 1.0 + rows::rows(call) as f32 * f32::EPSILON;
            row_mut(call.outputs[0], row, WIDTH)
                .iter_mut()
                .for_each(|y| *y *= factor);
        }
    }
}
