//! Activations for the products, as they are: each row normalised if the group says so, in float32.
//!
//! A prepared row is its values `[INPUTS]`, then for each block of 32 the sum of its values: what a minimum of the weights
//! is multiplied by.
#![allow(dead_code)]

use crate::group::{BLOCKS, EPSILON, HAS_NORM, INPUTS};
use crate::layout::BLOCK;
use crate::simd::Floats;

/// Bytes of a prepared row.
pub const ROW_BYTES: usize = (4 * (INPUTS + BLOCKS)).next_multiple_of(64);

/// The sums of the blocks of a prepared row.
#[inline(always)]
pub fn totals(row: *const u8) -> *const f32 {
    row.wrapping_add(4 * INPUTS).cast()
}

/// Prepares the row at `x`; `norm` is the norm's weight, read only if the group normalises.
pub unsafe fn prepare(x: *const f32, norm: *const f32, row: *mut u8) {
    unsafe {
        let factor = if HAS_NORM { inverse_root_mean_square(x) } else { Floats::splat(1.0) };
        for block in 0..BLOCKS {
            let mut sum = Floats::splat(0.0);
            for at in [block * BLOCK, block * BLOCK + 16] {
                let mut value = Floats::load(x.add(at));
                if HAS_NORM {
                    value = value.times(factor).times(Floats::load(norm.add(at)));
                }
                value.store(row.cast::<f32>().add(at));
                sum = sum.plus(value);
            }
            *totals(row).cast_mut().add(block) = folded(sum);
        }
    }
}

/// 1 / sqrt(mean(x^2) + epsilon).
#[inline(always)]
unsafe fn inverse_root_mean_square(x: *const f32) -> Floats {
    let mut sum = Floats::splat(0.0);
    for at in (0..INPUTS).step_by(16) {
        let value = unsafe { Floats::load(x.add(at)) };
        sum = value.times_plus(value, sum);
    }
    Floats::splat(1.0 / (folded(sum) / INPUTS as f32 + EPSILON).sqrt())
}

/// The sum of the lanes, folded in halves.
#[inline(always)]
fn folded(sum: Floats) -> f32 {
    let mut lanes = [0.0f32; 16];
    unsafe { sum.store(lanes.as_mut_ptr()) }
    let mut width = 8;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}
