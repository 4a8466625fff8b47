//! The weight of each expert for a row: softmax, the TOP_K largest (the first of equals) scaled to sum 1, the others 0.
//!
//! ```toml
//! name = "naive_top_k_gate"
//! pattern = "top_k_gate"
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

const EXPERTS: usize = constant!("EW_OP0_WIDTH", 8);
const TOP_K: usize = constant!("EW_OP0_TOP_K", 2);

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
            let logits = row(call.inputs[0], number, EXPERTS);
            let gates = row_mut(call.outputs[0], number, EXPERTS);
            gates.fill(0.0);
            let largest = logits.iter().fold(f32::NEG_INFINITY, |most, &logit| most.max(logit));
            let mut total = 0.0;
            for (expert, &logit) in logits.iter().enumerate() {
                let before = logits[..expert].iter().filter(|&&other| other >= logit).count();
                let after = logits[expert + 1..].iter().filter(|&&other| other > logit).count();
                if before + after < TOP_K {
                    gates[expert] = (logit - largest).exp();
                    total += gates[expert];
                }
            }
            gates.iter_mut().for_each(|gate| *gate /= total);
        }
    }
}
