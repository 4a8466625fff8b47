//! Sums in sixteen lanes, folded in halves: one fixed order, whatever the row's neighbours are.
#![allow(dead_code)]

/// Partial sums held at a time.
pub const LANES: usize = 16;

/// a * b + c: rounded once where the processor can, so that it is one instruction and never a call.
#[inline(always)]
pub fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
}

/// The sum of all lanes.
#[inline(always)]
pub fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The sum of `term(a, b)` over two slices of one length, where `term` adds to a partial sum.
#[inline(always)]
pub fn sum_pairs(a: &[f32], b: &[f32], term: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole_a, whole_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (rest_a, rest_b) = (whole_a.remainder(), whole_b.remainder());
    for (a, b) in whole_a.zip(whole_b) {
        for i in 0..LANES {
            lanes[i] = term(a[i], b[i], lanes[i]);
        }
    }
    for (i, (&a, &b)) in rest_a.iter().zip(rest_b).enumerate() {
        lanes[i] = term(a, b, lanes[i]);
    }
    fold(lanes)
}

/// The sum of products of two slices of one length.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum_pairs(a, b, multiply_add)
}

/// The sum of a slice.
#[inline(always)]
pub fn sum(values: &[f32]) -> f32 {
    sum_pairs(values, values, |value, _, sum| sum + value)
}
