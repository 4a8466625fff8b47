//! Negative control: it takes what scratch happens to hold for a bound.
//!
//! ```toml
//! name = "reads_old_scratch"
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
    64
}

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        for row in own_rows(call, thread) {
            write_row(call, row);
            let bound = *call.scratch.cast::<f32>();
            // NaN is no bound to `max`: only a finite value left over shows.
            row_mut(call.outputs[0], row, WIDTH)
                .iter_mut()
                .for_each(|y| *y = y.max(bound - 51_000.0));
        }
    }
}
