//! Activations for the products: each row normalised if the group says so, then 8-bit integers in blocks of 32.
//!
//! scale = max |x| / 127, q = round(x / scale), as llama.cpp does in front of a quantised matrix. In front of its K types
//! it lets 256 values share a scale; blocks of 32 are finer, and one kind of row serves every type. A prepared row is its
//! bytes `[INPUTS]`, then for each block a [`Side`]. A value that is not finite makes the scale not finite, and so shows.
#![allow(dead_code)]

use crate::group::{BLOCKS, EPSILON, HAS_NORM, INPUTS};
use crate::layout::BLOCK;
use crate::matrices::{SUMS, ZERO};
use crate::simd::{Floats, largest_magnitude, store_rounded};

/// What a product needs to know of a block of activations besides its bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side {
    pub scale: f32,
    /// Scale times the sum of the bytes: what a minimum of the weights is multiplied by.
    pub total: f32,
    /// Start of the integer sum of each scale: minus the sum of the bytes times the weight byte that means zero.
    pub starts: [i32; 2],
}

/// Bytes of a prepared row.
pub const ROW_BYTES: usize = (INPUTS + BLOCKS * size_of::<Side>()).next_multiple_of(64);

/// The sides of a prepared row.
#[inline(always)]
pub fn sides(row: *const u8) -> *const Side {
    row.wrapping_add(INPUTS).cast()
}

/// Prepares the row at `x`; `norm` is the norm's weight, read only if the group normalises.
pub unsafe fn prepare(x: *const f32, norm: *const f32, row: *mut u8) {
    unsafe {
        let factor = if HAS_NORM { inverse_root_mean_square(x) } else { Floats::splat(1.0) };
        for block in 0..BLOCKS {
            let values = [block * BLOCK, block * BLOCK + 16].map(|at| {
                let value = Floats::load(x.add(at));
                if HAS_NORM { value.times(factor).times(Floats::load(norm.add(at))) } else { value }
            });
            let largest = largest_magnitude(values);
            // Smaller than this the inverse would overflow, and the products would be lost in float32 anyway.
            let inverse = Floats::splat(if largest > 1e-30 { 127.0 / largest } else { 0.0 });
            let bytes = row.add(block * BLOCK).cast();
            let sums = store_rounded::<SUMS>(values.map(|value| value.times(inverse)), bytes);
            let scale = largest / 127.0;
            let mut starts = [0; 2];
            for (start, sum) in starts.iter_mut().zip(sums) {
                *start = sum.wrapping_mul(-ZERO);
            }
            let side = Side { scale, total: scale * sums.iter().sum::<i32>() as f32, starts };
            *sides(row).cast_mut().add(block) = side;
        }
    }
}

/// 1 / sqrt(mean(x^2) + epsilon), summed in 32 lanes that are then folded in halves.
#[inline(always)]
unsafe fn inverse_root_mean_square(x: *const f32) -> Floats {
    let mut sums = [Floats::splat(0.0); 2];
    let mut lanes = [0.0f32; BLOCK];
    unsafe {
        for block in 0..BLOCKS {
            for (half, sum) in sums.iter_mut().enumerate() {
                let value = Floats::load(x.add(block * BLOCK + 16 * half));
                *sum = value.times_plus(value, *sum);
            }
        }
        sums[0].store(lanes.as_mut_ptr());
        sums[1].store(lanes.as_mut_ptr().add(16));
    }
    let mut width = BLOCK / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    Floats::splat(1.0 / (lanes[0] / INPUTS as f32 + EPSILON).sqrt())
}
