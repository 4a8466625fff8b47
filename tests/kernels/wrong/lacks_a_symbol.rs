//! Negative control: it has no `ew_scratch`.
//!
//! ```toml
//! name = "lacks_a_symbol"
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
use norm::write_row;
use rows::own_rows;

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        for row in own_rows(call, thread) {
            write_row(call, row);
        }
    }
}
