//! Cosine and sine for rotations, written so that the compiler makes vectors of the loop around them.

use core::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Cosine and sine of a float32 angle to half a unit in the last place, in float64 inside.
#[inline(always)]
pub fn cosine_and_sine(angle: f32) -> (f32, f32) {
    const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;
    let angle = f64::from(angle);
    let quarter = (angle * FRAC_2_PI).round_ties_even();
    let x = quarter.mul_add(-HALF_PI_LOW, quarter.mul_add(-FRAC_PI_2, angle));
    let square = x * x;
    let mut sine = 1.0 / 6_227_020_800.0;
    for term in [-1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0] {
        sine = square.mul_add(sine, term);
    }
    let mut cosine = -1.0 / 87_178_291_200.0;
    for term in [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0]
    {
        cosine = square.mul_add(cosine, term);
    }
    sine *= x;
    let turn = quarter as i32 & 3;
    let (first, second) = if turn & 1 == 0 { (cosine, sine) } else { (sine, cosine) };
    let first = if turn == 1 || turn == 2 { -first } else { first };
    let second = if turn >= 2 { -second } else { second };
    (first as f32, second as f32)
}
