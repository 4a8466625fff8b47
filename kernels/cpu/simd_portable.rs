//! Sixteen lanes, one for each output row, in plain Rust: for processors that no other file of this kind speaks to, and for
//! work that is not worth their instructions. The compiler makes vectors of the loops where it can.
#![allow(dead_code)]

use crate::half::{from_half, to_half};
use crate::layout::Layout;
use core::array::from_fn;

/// Parts that the lanes of a panel are multiplied in.
pub const PARTS: usize = 1;
const LANES: usize = 16;

/// Lanes of four bytes: four neighbouring inputs of each output row.
#[derive(Clone, Copy)]
pub struct Bytes([u8; 4 * LANES]);

/// Floats of the output rows.
pub type Lanes = Floats;

/// Sixteen float32 lanes.
#[derive(Clone, Copy)]
pub struct Floats([f32; LANES]);

/// All lanes from those of the parts.
#[inline(always)]
pub fn joined([lanes]: [Lanes; PARTS]) -> Floats {
    lanes
}

#[inline(always)]
pub unsafe fn load_bytes(at: *const u8) -> Bytes {
    unsafe { Bytes(at.cast::<[u8; 4 * LANES]>().read_unaligned()) }
}

impl Bytes {
    #[inline(always)]
    pub fn splat(byte: u8) -> Self {
        Self([byte; 4 * LANES])
    }

    /// Low four bits of each byte.
    #[inline(always)]
    pub fn low_nibbles(self) -> Self {
        Self(self.0.map(|byte| byte & 15))
    }

    /// High four bits of each byte.
    #[inline(always)]
    pub fn high_nibbles(self) -> Self {
        Self(self.0.map(|byte| byte >> 4))
    }

    /// Byte `j` of each lane as a float, 0 to 255.
    #[inline(always)]
    pub fn byte<const J: u32>(self) -> Lanes {
        Floats(from_fn(|lane| f32::from(self.0[4 * lane + J as usize])))
    }

    /// These bytes with 16 added where the matching bit of those at `bits` is set.
    #[inline(always)]
    pub unsafe fn with_bit_4(self, bits: *const u8) -> Self {
        let mask = unsafe { bits.cast::<u64>().read_unaligned() };
        Self(from_fn(|i| self.0[i] | ((mask >> i & 1) as u8) << 4))
    }

    /// These bytes, below 16, with bits `2 * FIELD` and `2 * FIELD + 1` of those of `high` above them.
    #[inline(always)]
    pub fn with_bits_4_5<const FIELD: u32>(self, high: Self) -> Self {
        Self(from_fn(|i| self.0[i] | (high.0[i] >> (2 * FIELD) & 3) << 4))
    }
}

impl Floats {
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub unsafe fn load(at: *const f32) -> Self {
        unsafe { Self(at.cast::<[f32; LANES]>().read_unaligned()) }
    }

    #[inline(always)]
    pub unsafe fn store(self, at: *mut f32) {
        unsafe { at.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    /// Sixteen half floats.
    #[inline(always)]
    pub unsafe fn load_half(at: *const u8) -> Self {
        unsafe { Self(at.cast::<[u16; LANES]>().read_unaligned().map(from_half)) }
    }

    /// Sixteen bytes without sign.
    #[inline(always)]
    pub unsafe fn load_unsigned(at: *const u8) -> Self {
        unsafe { Self(at.cast::<[u8; LANES]>().read_unaligned().map(f32::from)) }
    }

    /// Sixteen bytes with sign.
    #[inline(always)]
    pub unsafe fn load_signed(at: *const u8) -> Self {
        unsafe { Self(at.cast::<[i8; LANES]>().read_unaligned().map(f32::from)) }
    }

    /// Stores as half floats, rounding to nearest even.
    #[inline(always)]
    pub unsafe fn store_half(self, at: *mut u8) {
        unsafe { at.cast::<[u16; LANES]>().write_unaligned(self.0.map(to_half)) }
    }

    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        Self(from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        Self(from_fn(|i| self.0[i] * other.0[i]))
    }

    #[inline(always)]
    pub fn divided_by(self, other: Self) -> Self {
        Self(from_fn(|i| self.0[i] / other.0[i]))
    }

    /// Between `low` and `high`; NaN stays NaN.
    #[inline(always)]
    pub fn clamped(self, low: f32, high: f32) -> Self {
        Self(self.0.map(|value| value.clamp(low, high)))
    }

    /// The nearest whole number, ties to even.
    #[inline(always)]
    pub fn rounded(self) -> Self {
        Self(self.0.map(f32::round_ties_even))
    }

    /// 2 to the power of these whole numbers, -126 to 127.
    #[inline(always)]
    pub fn power_of_two(self) -> Self {
        Self(self.0.map(|value| f32::from_bits(((value as i32 + 127) as u32) << 23)))
    }

    /// Neighbouring lanes change places.
    #[inline(always)]
    pub fn pairs_swapped(self) -> Self {
        Self(from_fn(|i| self.0[i ^ 1]))
    }

    /// `self * factor + addend`; rounded once where the processor does so, since elsewhere that takes a call for each lane.
    #[inline(always)]
    pub fn times_plus(self, factor: Self, addend: Self) -> Self {
        Self(from_fn(|i| {
            if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
                self.0[i].mul_add(factor.0[i], addend.0[i])
            } else {
                self.0[i] * factor.0[i] + addend.0[i]
            }
        }))
    }
}

/// Dot products of the weights of each lane with as many signed bytes of each of `ROWS` rows, as exact integers plus the
/// row's start; in float32.
#[inline(always)]
pub unsafe fn dots<L: Layout, const ROWS: usize>(
    weights: &[Bytes],
    bytes: [*const i8; ROWS],
    starts: [i32; ROWS],
) -> [Lanes; ROWS] {
    from_fn(|row| {
        let mut sums = [starts[row]; LANES];
        for (i, weight) in weights.iter().enumerate() {
            let four = unsafe { bytes[row].add(4 * i).cast::<[i8; 4]>().read_unaligned() };
            for (lane, sum) in sums.iter_mut().enumerate() {
                for (j, activation) in four.into_iter().enumerate() {
                    *sum += i32::from(weight.0[4 * lane + j]) * i32::from(activation);
                }
            }
        }
        Floats(sums.map(|sum| sum as f32))
    })
}

/// The largest magnitude of 32 values. Compared as bits, so that NaN, whose bits are the largest, is not lost.
#[inline(always)]
pub fn largest_magnitude(values: [Floats; 2]) -> f32 {
    let bits = values.into_iter().flat_map(|half| half.0).map(|value| value.to_bits() & 0x7fff_ffff);
    f32::from_bits(bits.fold(0, u32::max))
}

/// Stores 32 values rounded to bytes, ties to even; the sums of their `SUMS` parts: of all, or of each half.
#[inline(always)]
pub unsafe fn store_rounded<const SUMS: usize>(values: [Floats; 2], bytes: *mut i8) -> [i32; SUMS] {
    let mut sums = [0; SUMS];
    for (half, values) in values.into_iter().enumerate() {
        for (lane, value) in values.0.into_iter().enumerate() {
            let whole = value.round_ties_even() as i32;
            unsafe { *bytes.add(LANES * half + lane) = whole as i8 }
            sums[half * SUMS / 2] += whole;
        }
    }
    sums
}

/// Asks for nothing: there is no portable way to.
#[inline(always)]
pub fn prefetch<const LEVEL: usize>(_at: *const u8) {}
