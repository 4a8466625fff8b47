//! Negative control: a row's last bits depend on the calls before.
//!
//! ```toml
//! name = "remembers_calls"
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

use core::sync::atomic::{AtomicUsize, Ordering};

use abi::Call;
use norm::{WIDTH, write_row};
use rows::{own_rows, row_mut};

static CALLS: AtomicUsize = AtomicUsize::new(0);

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
        let before = CALLS.fetch_add(1, Ordering::Relaxed);
        for row in own_rows(call, thread) {
            write_row(call, row);
            let factor = 1.0 + (before % 7) as f32 * f32::EPSILON;
            row_mut(call.outputs[0], row, WIDTH)
                .iter_mut()
                .for_each(|y| *y *= factor);
        }
    }
}
