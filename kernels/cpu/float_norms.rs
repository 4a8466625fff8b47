//! Norms of one float32 row, on vectors. The order of the sums depends on the width of the row only.
#![allow(dead_code)]

use crate::vector::{Lanes, WIDTH};

/// Accumulators of a sum over a row: enough to hide the latency of an addition.
const CHAINS: usize = 4;

/// Sum over the row of `term` of each vector; lanes past the row are left out.
#[inline(always)]
unsafe fn total<const COLUMNS: usize>(row: *const f32, term: impl Fn(Lanes, Lanes) -> Lanes) -> f32 {
    let mut sums = [Lanes::splat(0.0); CHAINS];
    let mut column = 0;
    while column + CHAINS * WIDTH <= COLUMNS {
        for (chain, sum) in sums.iter_mut().enumerate() {
            *sum = term(unsafe { Lanes::load(row.add(column + chain * WIDTH)) }, *sum);
        }
        column += CHAINS * WIDTH;
    }
    while column + WIDTH <= COLUMNS {
        sums[0] = term(unsafe { Lanes::load(row.add(column)) }, sums[0]);
        column += WIDTH;
    }
    let mut sum = sums[0].plus(sums[1]).plus(sums[2].plus(sums[3])).sum();
    if column < COLUMNS {
        let mut rest = [0.0; WIDTH];
        unsafe {
            term(Lanes::load_first(row.add(column), COLUMNS - column), Lanes::splat(0.0))
                .store(rest.as_mut_ptr())
        }
        sum += rest[..COLUMNS - column].iter().sum::<f32>();
    }
    sum
}

/// Calls `each` with every column and number of lanes of a row.
#[inline(always)]
pub fn vectors<const COLUMNS: usize>(mut each: impl FnMut(usize, usize)) {
    let mut column = 0;
    while column + WIDTH <= COLUMNS {
        each(column, WIDTH);
        column += WIDTH;
    }
    if column < COLUMNS {
        each(column, COLUMNS - column);
    }
}

/// Sum of squares of a row.
#[inline(always)]
pub unsafe fn sum_of_squares<const COLUMNS: usize>(row: *const f32) -> f32 {
    unsafe { total::<COLUMNS>(row, |x, sum| x.times_plus(x, sum)) }
}

/// out = row * weight / sqrt(mean(row^2) + epsilon); `out` may be `row`.
#[inline(always)]
pub unsafe fn rms_norm<const COLUMNS: usize>(
    row: *const f32,
    weight: *const f32,
    epsilon: f32,
    out: *mut f32,
) {
    unsafe {
        let mean = sum_of_squares::<COLUMNS>(row) / COLUMNS as f32;
        let factor = Lanes::splat(1.0 / (mean + epsilon).sqrt());
        vectors::<COLUMNS>(|column, count| {
            let x = Lanes::load_first(row.add(column), count).times(factor);
            x.times(Lanes::load_first(weight.add(column), count)).store_first(out.add(column), count);
        });
    }
}

/// out = (row - mean) / sqrt(variance + epsilon) * weight + offset; `out` may be `row`.
#[inline(always)]
pub unsafe fn layer_norm<const COLUMNS: usize>(
    row: *const f32,
    weight: *const f32,
    offset: *const f32,
    epsilon: f32,
    out: *mut f32,
) {
    unsafe {
        let mean = Lanes::splat(total::<COLUMNS>(row, |x, sum| sum.plus(x)) / COLUMNS as f32);
        let squares = total::<COLUMNS>(row, |x, sum| {
            let apart = x.minus(mean);
            apart.times_plus(apart, sum)
        });
        let factor = Lanes::splat(1.0 / (squares / COLUMNS as f32 + epsilon).sqrt());
        vectors::<COLUMNS>(|column, count| {
            let x = Lanes::load_first(row.add(column), count).minus(mean).times(factor);
            let weight = Lanes::load_first(weight.add(column), count);
            x.times_plus(weight, Lanes::load_first(offset.add(column), count))
                .store_first(out.add(column), count);
        });
    }
}
