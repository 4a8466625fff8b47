//! y = x/2 (1 + erf(x / sqrt 2)), or in the tanh form x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); inside in float64.
//!
//! ```toml
//! name = "naive_gelu"
//! pattern = "gelu"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::{Call, same};
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use rows::{own_rows, row, row_mut};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 1536);
const IS_ERF: bool = same(text_constant!("EW_OP0_FORM", "erf"), "erf");

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
            let x = row(call.inputs[0], number, WIDTH);
            let y = row_mut(call.outputs[0], number, WIDTH);
            for (y, &x) in y.iter_mut().zip(x) {
                *y = gelu(f64::from(x)) as f32;
            }
        }
    }
}

fn gelu(x: f64) -> f64 {
    if IS_ERF {
        0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))
    } else {
        let inner = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (x + 0.044715 * x * x * x);
        0.5 * x * (1.0 + inner.tanh())
    }
}

/// erf(x) = 2/sqrt(pi) exp(-x^2) sum over n of 2^n x^(2n+1) / (1 * 3 * ... * (2n+1)): no term cancels another.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    // 1 - erf(6) is below the last bit of 1.
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
