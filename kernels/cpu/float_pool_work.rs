//! One row for each segment: the mean or the first of its rows, perhaps scaled to length 1; or only scaled.

use crate::abi::{self, Call};
use crate::constants::{ABSENT, MOST_OPS, find, float};
use crate::norms::{sum_of_squares, vectors};
use crate::vector::Lanes;

const OPS: &str = text_constant!("EW_OPS", "mean_pool");
const WIDTH: usize = constant!("EW_OP0_WIDTH", 384);
const EPSILONS: [Option<&str>; MOST_OPS] = texts!("EPSILON_BITS");

const L2_NORM: usize = find(OPS, "l2_norm", 0);
const EPSILON: f32 = float(EPSILONS, L2_NORM, 1e-12);
const ROWS: &str = text_constant!("EW_OP0_ROWS", "segments");

pub unsafe fn rows(call: &Call) -> usize {
    let step = unsafe { &*call.step };
    let rows = if abi::same(ROWS, "segments") {
        step.segments
    } else if abi::same(ROWS, "selected") {
        step.selected
    } else {
        step.rows
    };
    rows as usize
}

pub unsafe fn run(call: &Call, row: usize) {
    unsafe {
        let out = call.outputs[0].add(row * WIDTH);
        let mut x = call.inputs[0].add(row * WIDTH);
        if L2_NORM != 0 {
            let starts = (*call.step).starts.add(row);
            let (first, end) = (*starts as usize, *starts.add(1) as usize);
            let used = if abi::has(OPS, "mean_pool") { end - first } else { 1 };
            mean(call.inputs[0].add(first * WIDTH), used, out);
            x = out;
        }
        if L2_NORM != ABSENT {
            let length = sum_of_squares::<WIDTH>(x).sqrt().max(EPSILON);
            vectors::<WIDTH>(|column, count| {
                let x = Lanes::load_first(x.add(column), count);
                x.over(Lanes::splat(length)).store_first(out.add(column), count);
            });
        }
    }
}

/// Mean of `count` rows, summed in order.
unsafe fn mean(rows: *const f32, count: usize, out: *mut f32) {
    let count_of_rows = Lanes::splat(count as f32);
    vectors::<WIDTH>(|column, lanes| unsafe {
        let mut sum = Lanes::load_first(rows.add(column), lanes);
        for row in 1..count {
            sum = sum.plus(Lanes::load_first(rows.add(row * WIDTH + column), lanes));
        }
        sum.over(count_of_rows).store_first(out.add(column), lanes);
    });
}
