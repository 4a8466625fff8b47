//! Conversions between float32 and 16-bit floats, exact or rounded to nearest even; plain Rust that compiles to vectors.
#![allow(dead_code)]

/// An IEEE half as float32, exact.
#[inline(always)]
pub fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let shifted = u32::from(bits & 0x7fff) << 13;
    // The product by 2^112 moves the exponent and is exact for subnormal halves too.
    let magnitude = f32::from_bits(shifted) * f32::from_bits(0x7780_0000);
    let is_special = bits & 0x7c00 == 0x7c00;
    let magnitude = if is_special { shifted | 0x7f80_0000 } else { magnitude.to_bits() };
    f32::from_bits(sign | magnitude)
}

/// The upper half of a float32 (bfloat16) as float32, exact.
#[inline(always)]
pub fn from_brain(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest IEEE half; infinity above 65,504, as the hardware rounds.
#[inline(always)]
pub fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00
    } else if magnitude >= 0x477f_f000 {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        (magnitude - 0x3800_0000 + 0xfff + ((magnitude >> 13) & 1)) >> 13
    } else {
        // Added to 0.5, whose last bit is the smallest half, the sum is rounded where a half ends.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000
    };
    sign | half as u16
}
