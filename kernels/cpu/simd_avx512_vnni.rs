//! Sixteen lanes, one for each output row: AVX-512 with VNNI.
//!
//! The functions may be called where a kernel's `requires` hold; the object is compiled for that processor.
#![allow(dead_code)]

use crate::layout::Layout;
use core::arch::x86_64::*;

/// Parts that the lanes of a panel are multiplied in, each with registers of its own.
pub const PARTS: usize = 1;

/// Lanes of four bytes: four neighbouring inputs of each output row of a part.
#[derive(Clone, Copy)]
pub struct Bytes(__m512i);

/// Floats of the output rows of a part.
pub type Lanes = Floats;

/// All lanes from those of the parts.
#[inline(always)]
pub fn joined([lanes]: [Lanes; PARTS]) -> Floats {
    lanes
}

/// Sixteen float32 lanes.
#[derive(Clone, Copy)]
pub struct Floats(__m512);

#[inline(always)]
pub unsafe fn load_bytes(at: *const u8) -> Bytes {
    unsafe { Bytes(_mm512_load_si512(at.cast())) }
}

impl Bytes {
    #[inline(always)]
    pub fn splat(byte: u8) -> Self {
        unsafe { Self(_mm512_set1_epi8(byte.cast_signed())) }
    }

    /// Low four bits of each byte.
    #[inline(always)]
    pub fn low_nibbles(self) -> Self {
        unsafe { Self(_mm512_and_si512(self.0, _mm512_set1_epi8(15))) }
    }

    /// High four bits of each byte.
    #[inline(always)]
    pub fn high_nibbles(self) -> Self {
        unsafe { Self(_mm512_and_si512(_mm512_srli_epi16::<4>(self.0), _mm512_set1_epi8(15))) }
    }

    /// Byte `j` of each lane as a float, 0 to 255.
    #[inline(always)]
    pub fn byte<const J: u32>(self) -> Lanes {
        unsafe {
            let shifted = match J {
                0 => self.0,
                1 => _mm512_srli_epi32::<8>(self.0),
                2 => _mm512_srli_epi32::<16>(self.0),
                _ => _mm512_srli_epi32::<24>(self.0),
            };
            Floats(_mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32(255))))
        }
    }

    /// This byte lanes with 16 added where the matching bit of `bits` is set.
    #[inline(always)]
    pub unsafe fn with_bit_4(self, bits: *const u8) -> Self {
        unsafe {
            let mask = bits.cast::<u64>().read_unaligned();
            Self(_mm512_mask_add_epi8(self.0, mask, self.0, _mm512_set1_epi8(16)))
        }
    }

    /// These bytes, below 16, with bits `2 * FIELD` and `2 * FIELD + 1` of those of `high` above them.
    #[inline(always)]
    pub fn with_bits_4_5<const FIELD: u32>(self, high: Self) -> Self {
        unsafe {
            let shifted = match FIELD {
                0 => _mm512_slli_epi16::<4>(high.0),
                1 => _mm512_slli_epi16::<2>(high.0),
                2 => high.0,
                _ => _mm512_srli_epi16::<2>(high.0),
            };
            // a | b & c
            Self(_mm512_ternarylogic_epi32::<0xf8>(self.0, shifted, _mm512_set1_epi8(0x30)))
        }
    }
}

impl Floats {
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        unsafe { Self(_mm512_set1_ps(value)) }
    }

    #[inline(always)]
    pub unsafe fn load(at: *const f32) -> Self {
        unsafe { Self(_mm512_loadu_ps(at)) }
    }

    #[inline(always)]
    pub unsafe fn store(self, at: *mut f32) {
        unsafe { _mm512_storeu_ps(at, self.0) }
    }

    /// Sixteen half floats.
    #[inline(always)]
    pub unsafe fn load_half(at: *const u8) -> Self {
        unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(at.cast()))) }
    }

    /// Sixteen bytes without sign.
    #[inline(always)]
    pub unsafe fn load_unsigned(at: *const u8) -> Self {
        unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())))) }
    }

    /// Sixteen bytes with sign.
    #[inline(always)]
    pub unsafe fn load_signed(at: *const u8) -> Self {
        unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast())))) }
    }

    /// Stores as half floats, rounding to nearest even.
    #[inline(always)]
    pub unsafe fn store_half(self, at: *mut u8) {
        unsafe { _mm256_storeu_si256(at.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }

    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn divided_by(self, other: Self) -> Self {
        unsafe { Self(_mm512_div_ps(self.0, other.0)) }
    }

    /// Between `low` and `high`; NaN stays NaN.
    #[inline(always)]
    pub fn clamped(self, low: f32, high: f32) -> Self {
        unsafe { Self(_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), self.0))) }
    }

    /// The nearest whole number, ties to even.
    #[inline(always)]
    pub fn rounded(self) -> Self {
        unsafe { Self(_mm512_roundscale_ps::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }

    /// 2 to the power of these whole numbers, -126 to 127.
    #[inline(always)]
    pub fn power_of_two(self) -> Self {
        unsafe {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent)))
        }
    }

    /// Neighbouring lanes change places.
    #[inline(always)]
    pub fn pairs_swapped(self) -> Self {
        unsafe { Self(_mm512_permute_ps::<0b10_11_00_01>(self.0)) }
    }

    /// `self * factor + addend`, rounded once.
    #[inline(always)]
    pub fn times_plus(self, factor: Self, addend: Self) -> Self {
        unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, addend.0)) }
    }
}

/// Dot products of the weights of each lane with as many signed bytes of each of `ROWS` rows, as exact integers plus the
/// row's start; in float32. The rows' sums advance together, since one alone would wait for itself at every step.
///
/// The layout's largest weight byte decides nothing here, since VNNI sums in 32 bits.
#[inline(always)]
pub unsafe fn dots<L: Layout, const ROWS: usize>(
    weights: &[Bytes],
    bytes: [*const i8; ROWS],
    starts: [i32; ROWS],
) -> [Lanes; ROWS] {
    unsafe {
        let mut sums = starts.map(|start| _mm512_set1_epi32(start));
        for (i, weight) in weights.iter().enumerate() {
            for (sum, bytes) in sums.iter_mut().zip(bytes) {
                let activation = _mm512_set1_epi32(bytes.cast::<i32>().add(i).read_unaligned());
                *sum = _mm512_dpbusd_epi32(*sum, weight.0, activation);
            }
        }
        sums.map(|sum| Floats(_mm512_cvtepi32_ps(sum)))
    }
}

/// The largest magnitude of 32 values. Compared as bits, so that NaN, whose bits are the largest, is not lost.
#[inline(always)]
pub fn largest_magnitude(values: [Floats; 2]) -> f32 {
    unsafe {
        let [a, b] =
            values.map(|half| _mm512_and_si512(_mm512_castps_si512(half.0), _mm512_set1_epi32(0x7fff_ffff)));
        f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(a, b)))
    }
}

/// Stores 32 values rounded to bytes, ties to even; the sums of their `SUMS` parts: of all, or of each half.
#[inline(always)]
pub unsafe fn store_rounded<const SUMS: usize>(values: [Floats; 2], bytes: *mut i8) -> [i32; SUMS] {
    unsafe {
        let [a, b] = values.map(|half| _mm512_cvtps_epi32(half.0));
        _mm_storeu_si128(bytes.cast(), _mm512_cvtepi32_epi8(a));
        _mm_storeu_si128(bytes.add(16).cast(), _mm512_cvtepi32_epi8(b));
        if SUMS == 1 {
            return [_mm512_reduce_add_epi32(_mm512_add_epi32(a, b)); SUMS];
        }
        let halves = [a, b].map(|half| _mm512_reduce_add_epi32(half));
        core::array::from_fn(|i| halves[i])
    }
}

/// Asks for the cache line at `at`, which need not exist, into the cache of level `LEVEL`.
#[inline(always)]
pub fn prefetch<const LEVEL: usize>(at: *const u8) {
    unsafe {
        match LEVEL {
            1 => _mm_prefetch::<_MM_HINT_T0>(at.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(at.cast()),
        }
    }
}
