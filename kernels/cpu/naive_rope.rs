//! Pairs of values of a head turn by position times frequency (the angle rounded to float32); the rest stay.
//!
//! (a, b) -> magnitude * (a cos - b sin, a sin + b cos); pairs are (2i, 2i + 1) or (i, i + rotary / 2).
//!
//! ```toml
//! name = "naive_rope"
//! pattern = "rope"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::{Call, same};
use rows::{own_rows, row, row_mut};

const HEADS: usize = constant!("EW_OP0_HEADS", 9);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 64);
const ROTARY: usize = constant!("EW_OP0_ROTARY", 64);
const PAIRS_ARE_ADJACENT: bool = same(text_constant!("EW_OP0_PAIRING", "adjacent"), "adjacent");
const MAGNITUDE: f32 = float_constant!("EW_OP0_MAGNITUDE_BITS", 1.0);

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
        let frequencies = row(call.weights[0].cast(), 0, ROTARY / 2);
        for number in own_rows(call, thread) {
            let position = *(*call.step).positions.add(number) as f32;
            let x = row(call.inputs[0], number, HEADS * HEAD_DIM);
            let y = row_mut(call.outputs[0], number, HEADS * HEAD_DIM);
            y.copy_from_slice(x);
            for (i, &frequency) in frequencies.iter().enumerate() {
                let (sine, cosine) = f64::from(position * frequency).sin_cos();
                let (sine, cosine) = (MAGNITUDE * sine as f32, MAGNITUDE * cosine as f32);
                let (a, b) = if PAIRS_ARE_ADJACENT { (2 * i, 2 * i + 1) } else { (i, i + ROTARY / 2) };
                for head in (0..HEADS * HEAD_DIM).step_by(HEAD_DIM) {
                    y[head + a] = x[head + a] * cosine - x[head + b] * sine;
                    y[head + b] = x[head + a] * sine + x[head + b] * cosine;
                }
            }
        }
    }
}
