//! Activations for the products: each row normalised if the group says so, then 8-bit integers in blocks of 32.
//!
//! scale = max |x| / 127, q = round(x / scale), as llama.cpp does in front of a quantised matrix. A prepared row is its
//! bytes `[INPUTS]`, then for each block a [`Side`]. A value that is not finite makes the scale not finite, and so shows.
#![allow(dead_code)]

use crate::group::{EPSILON, HAS_NORM, INPUTS};
use crate::layout;
use crate::panels::{BLOCK, BLOCKS};

/// What a product needs to know of a block of activations besides its bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side {
    pub scale: f32,
    /// Scale times the sum of the bytes: what a minimum of the weights is multiplied by.
    pub total: f32,
    /// Start of the integer sum: minus the sum of the bytes times the weight byte that means zero.
    pub start: i32,
    unused: u32,
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
        let x = &*x.cast::<[f32; INPUTS]>();
        let factor = if HAS_NORM { inverse_root_mean_square(x) } else { 1.0 };
        for block in 0..BLOCKS {
            let mut values = [0.0; BLOCK];
            for (i, value) in values.iter_mut().enumerate() {
                let at = block * BLOCK + i;
                *value = if HAS_NORM { x[at] * factor * *norm.add(at) } else { x[at] };
            }
            let side = quantise(&values, &mut *row.add(block * BLOCK).cast::<[i8; BLOCK]>());
            *sides(row).cast_mut().add(block) = side;
        }
    }
}

/// 1 / sqrt(mean(x^2) + epsilon), summed in 32 lanes that are then folded in halves.
#[inline(always)]
fn inverse_root_mean_square(x: &[f32; INPUTS]) -> f32 {
    let mut lanes = [0.0f32; BLOCK];
    for block in x.chunks_exact(BLOCK) {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane = value.mul_add(*value, *lane);
        }
    }
    let mut width = BLOCK / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    1.0 / (lanes[0] / INPUTS as f32 + EPSILON).sqrt()
}

#[inline(always)]
fn quantise(values: &[f32; BLOCK], bytes: &mut [i8; BLOCK]) -> Side {
    // Compared as bits, so that NaN, whose bits are the largest, is not lost in the maximum.
    let largest = values.iter().fold(0, |most, value| most.max(value.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest);
    let scale = largest / 127.0;
    // Smaller than this the inverse would overflow, and the products would be lost in float32 anyway.
    let inverse = if largest > 1e-30 { 127.0 / largest } else { 0.0 };
    let mut sum = 0;
    for (byte, value) in bytes.iter_mut().zip(values) {
        let whole = (value * inverse).round_ties_even() as i32;
        *byte = whole as i8;
        sum += whole;
    }
    Side { scale, total: scale * sum as f32, start: -layout::ZERO * sum, unused: 0 }
}
