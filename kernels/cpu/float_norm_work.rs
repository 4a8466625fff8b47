//! Norms alone, of rows or of their heads, or of a sum of two rows.

use crate::abi::{self, Call};
use crate::constants::{ABSENT, MOST_OPS, find, float, numbers, text};
use crate::norms::{layer_norm, rms_norm, vectors};
use crate::vector::Lanes;

const OPS: &str = text_constant!("EW_OPS", "rms_norm");
const WIDTHS: [usize; MOST_OPS] = numbers(texts!("WIDTH"), 576);
const HEADS: [usize; MOST_OPS] = numbers(texts!("HEADS"), 1);
const EPSILONS: [Option<&str>; MOST_OPS] = texts!("EPSILON_BITS");
const ROWS: [Option<&str>; MOST_OPS] = texts!("ROWS");

const ADDS: bool = find(OPS, "add", 0) != ABSENT;
const NORM: usize = ADDS as usize;
const IS_LAYER_NORM: bool = find(OPS, "layer_norm", 0) != ABSENT;
/// Parts of a row that are normalised each on its own.
const PARTS: usize = if find(OPS, "head_norm", 0) == ABSENT { 1 } else { HEADS[NORM] };
const WIDTH: usize = WIDTHS[NORM] / PARTS;
const EPSILON: f32 = float(EPSILONS, NORM, 1e-5);
const SELECTED: bool = abi::same(text(ROWS, NORM, "tokens"), "selected");

pub unsafe fn rows(call: &Call) -> usize {
    unsafe { if SELECTED { (*call.step).selected as usize } else { (*call.step).rows as usize } }
}

pub unsafe fn run(call: &Call, row: usize) {
    for part in row * PARTS..(row + 1) * PARTS {
        unsafe { normalise(call, part * WIDTH) }
    }
}

/// One row, or one head of it, from value `at` on.
#[inline(always)]
unsafe fn normalise(call: &Call, at: usize) {
    unsafe {
        let (mut x, out) = (call.inputs[0].add(at), call.outputs[0].add(at));
        if ADDS {
            let other = call.inputs[1].add(at);
            vectors::<WIDTH>(|column, count| {
                let x = Lanes::load_first(x.add(column), count);
                x.plus(Lanes::load_first(other.add(column), count)).store_first(out.add(column), count);
            });
            x = out;
        }
        if IS_LAYER_NORM {
            layer_norm::<WIDTH>(x, call.weights[0].cast(), call.weights[1].cast(), EPSILON, out);
        } else {
            rms_norm::<WIDTH>(x, call.weights[0].cast(), EPSILON, out);
        }
    }
}
