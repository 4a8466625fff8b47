//! The mean of the rows of each segment; summed in order, in float64.
//!
//! ```toml
//! name = "naive_mean_pool"
//! pattern = "mean_pool"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::Call;
use rows::{own_rows, row_mut};

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
            let starts = (*call.step).starts;
            let (start, end) = (*starts.add(segment) as usize, *starts.add(segment + 1) as usize);
            for (i, y) in row_mut(call.outputs[0], segment, WIDTH).iter_mut().enumerate() {
                let mut sum = 0.0;
                for number in start..end {
                    sum += f64::from(*call.inputs[0].add(number * WIDTH + i));
                }
                *y = (sum / (end - start) as f64) as f32;
            }
        }
    }
}
