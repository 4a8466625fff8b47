//! The curves of the float kernels, on vectors: exponential, and the activations made of it.
#![allow(dead_code)]

use crate::vector::Lanes;

/// Evaluates a polynomial, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: Lanes, coefficients: [f32; N]) -> Lanes {
    let mut sum = Lanes::splat(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = sum.times_plus(x, Lanes::splat(*coefficient));
    }
    sum
}

/// e^x to about 1 unit in the last place; 0 at minus infinity, NaN stays NaN. `x` is at most 88.
#[inline(always)]
pub fn exponential(x: Lanes) -> Lanes {
    // x = whole * ln 2 + rest, ln 2 in two parts; Cody and Waite.
    let x = Lanes::splat(-150.0).larger(x);
    let whole = x.times(Lanes::splat(core::f32::consts::LOG2_E)).whole();
    let rest = whole.times_plus(Lanes::splat(-0.693_359_4), x);
    let rest = whole.times_plus(Lanes::splat(2.121_944_4e-4), rest);
    let series =
        polynomial(rest, [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0]);
    series.times_two_to(whole)
}

/// x / (1 + e^-x).
#[inline(always)]
pub fn silu(x: Lanes) -> Lanes {
    let one = Lanes::splat(1.0);
    let inverse = exponential(Lanes::splat(0.0).minus(x).smaller(Lanes::splat(88.0)));
    x.over(one.plus(inverse))
}

/// x * (1 + erf(x / sqrt 2)) / 2 = max(x, 0) - |x| * erfc(|x| / sqrt 2) / 2, with no cancellation on either side.
///
/// The logarithm of erfc(|x| / sqrt 2) is a polynomial without constant term, fitted on 0 to 9 so that the result is
/// off by less than 5e-9 before rounding; past 9 the second term is 0 in float32.
#[inline(always)]
pub fn gelu_erf(x: Lanes) -> Lanes {
    let size = x.magnitude();
    let near = Lanes::splat(9.0).smaller(size);
    let logarithm = polynomial(
        near,
        [
            2.405_383_9e-7,
            -4.914_707_6e-6,
            4.153_701_2e-5,
            -1.634_626_5e-4,
            -5.155_000_7e-5,
            4.869_782_3e-3,
            -3.638_278_3e-2,
            -3.182_976_5e-1,
            -7.978_856_6e-1,
        ],
    );
    let half = size.times(Lanes::splat(-0.5));
    half.times_plus(exponential(logarithm.times(near)), Lanes::splat(0.0).larger(x))
}

/// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, as x / (1 + e^-2t).
#[inline(always)]
pub fn gelu_tanh(x: Lanes) -> Lanes {
    let cubic = x.times(x).times_plus(Lanes::splat(0.044_715), Lanes::splat(1.0)).times(x);
    let inverse = cubic.times(Lanes::splat(-1.595_769)).smaller(Lanes::splat(88.0));
    x.over(Lanes::splat(1.0).plus(exponential(inverse)))
}
