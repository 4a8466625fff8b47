//! A row of RMS norm that is right: what the negative controls spoil.
#![allow(dead_code)]

use crate::abi::Call;
use crate::rows::{row, row_mut};

pub const WIDTH: usize = constant!("EW_OP0_WIDTH", 64);
const EPSILON: f32 = float_constant!("EW_OP0_EPSILON_BITS", 1e-5);

/// Writes output row `number`.
pub unsafe fn write_row(call: &Call, number: usize) {
    unsafe {
        let x = row(call.inputs[0], number, WIDTH);
        let w = row(call.weights[0].cast(), 0, WIDTH);
        let mut sum = 0.0;
        for value in x {
            sum += value * value;
        }
        let factor = 1.0 / (sum / WIDTH as f32 + EPSILON).sqrt();
        let y = row_mut(call.outputs[0], number, WIDTH);
        for i in 0..WIDTH {
            y[i] = x[i] * factor * w[i];
        }
    }
}
