//! Elementwise ops alone: what is left when a plan fuses them with nothing.

use crate::abi::{self, Call};
use crate::curves::{gelu_erf, gelu_tanh, silu};
use crate::norms::vectors;
use crate::vector::Lanes;

const OPS: &str = text_constant!("EW_OPS", "add");
const WIDTH: usize = constant!("EW_OP0_WIDTH", 576);
const IS_TANH: bool = abi::same(text_constant!("EW_OP0_FORM", "erf"), "tanh");
const ROWS: &str = text_constant!("EW_OP0_ROWS", "tokens");

pub unsafe fn rows(call: &Call) -> usize {
    let step = unsafe { &*call.step };
    let rows = if abi::same(ROWS, "selected") {
        step.selected
    } else if abi::same(ROWS, "segments") {
        step.segments
    } else {
        step.rows
    };
    rows as usize
}

pub unsafe fn run(call: &Call, row: usize) {
    unsafe {
        let from =
            if abi::has(OPS, "select_rows") { *(*call.step).selected_rows.add(row) as usize } else { row };
        let (x, out) = (call.inputs[0].add(from * WIDTH), call.outputs[0].add(row * WIDTH));
        let other = call.inputs[1];
        vectors::<WIDTH>(|column, count| {
            let x = Lanes::load_first(x.add(column), count);
            let second = || Lanes::load_first(other.wrapping_add(row * WIDTH + column), count);
            let result = if abi::has(OPS, "add") {
                x.plus(second())
            } else if abi::has(OPS, "silu_mul") {
                silu(x).times(second())
            } else if abi::has(OPS, "gelu") {
                if IS_TANH { gelu_tanh(x) } else { gelu_erf(x) }
            } else {
                x
            };
            result.store_first(out.add(column), count);
        });
    }
}
