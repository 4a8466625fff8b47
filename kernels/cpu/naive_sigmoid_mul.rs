//! y = x / (1 + exp(-gate)): each gate is for WIDTH of x / number of gates neighbouring values; float32.
//!
//! ```toml
//! name = "naive_sigmoid_mul"
//! pattern = "sigmoid_mul"
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

/// Gates of a row.
const GATES: usize = constant!("EW_OP0_WIDTH", 64);
/// Values that one gate opens.
const EACH: usize = constant!("EW_OP0_EACH", 1);

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
            let gates = row(call.inputs[0], number, GATES);
            for (gate, at) in gates.iter().zip(number * GATES..) {
                let opened = 1.0 / (1.0 + (-gate).exp());
                let y = row_mut(call.outputs[0], at, EACH);
                for (y, x) in y.iter_mut().zip(row(call.inputs[1], at, EACH)) {
                    *y = x * opened;
                }
            }
        }
    }
}
