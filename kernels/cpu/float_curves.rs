//! The curves of the float kernels, on vectors: exponential, logistic, Gaussian error function.
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

/// The error function to about 1 unit in the last place.
///
/// Near zero a polynomial in x^2; elsewhere 1 - e^p(|x|). Source: N. Juffa's single-precision erf.
#[inline(always)]
pub fn error_function(x: Lanes) -> Lanes {
    let (size, square) = (x.magnitude(), x.times(x));
    let near = polynomial(
        square,
        [-5.967_617e-4, 4.991_194_2e-3, -2.676_813_5e-2, 1.128_199_3e-1, -3.761_253_4e-1, 1.283_791_7e-1],
    );
    let near = near.times_plus(x, x);
    // Past 4 the result is 1 in float32.
    let size = size.smaller(Lanes::splat(4.0));
    let square = size.times(size);
    let outer = polynomial(size, [-1.728_534_7e-5, 3.831_972e-4]);
    let inner = polynomial(size, [-3.883_964_4e-3, 2.425_462_2e-2]);
    let far = outer.times_plus(square, inner);
    let far = far.times_plus(size, Lanes::splat(-1.067_777_8e-1));
    let far = far.times_plus(size, Lanes::splat(-6.348_468_7e-1));
    let far = far.times_plus(size, Lanes::splat(-1.287_175_1e-1));
    let far = far.times_plus(size, Lanes::splat(0.0).minus(size));
    let far = Lanes::splat(1.0).minus(exponential(far)).with_sign_of(x);
    x.magnitude().choose_below(Lanes::splat(0.927_734_4), near, far)
}

/// x * (1 + erf(x / sqrt 2)) / 2.
#[inline(always)]
pub fn gelu_erf(x: Lanes) -> Lanes {
    let half = x.times(Lanes::splat(0.5));
    half.times_plus(error_function(x.times(Lanes::splat(core::f32::consts::FRAC_1_SQRT_2))), half)
}

/// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, as x / (1 + e^-2t).
#[inline(always)]
pub fn gelu_tanh(x: Lanes) -> Lanes {
    let cubic = x.times(x).times_plus(Lanes::splat(0.044_715), Lanes::splat(1.0)).times(x);
    let inverse = cubic.times(Lanes::splat(-1.595_769)).smaller(Lanes::splat(88.0));
    x.over(Lanes::splat(1.0).plus(exponential(inverse)))
}
