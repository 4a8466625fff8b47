//! Sixteen lanes, one for each output row: two registers of AVX2 with FMA and F16C.
//!
//! The functions may be called where a kernel's `requires` hold; the object is compiled for that processor.
#![allow(dead_code)]

use crate::layout::Layout;
use core::arch::x86_64::*;

/// Parts that the lanes of a panel are multiplied in, each with registers of its own: sixteen registers do not hold more.
pub const PARTS: usize = 2;

/// Lanes of four bytes: four neighbouring inputs of each output row of a part.
#[derive(Clone, Copy)]
pub struct Bytes(__m256i);

/// Floats of the output rows of a part.
#[derive(Clone, Copy)]
pub struct Lanes(__m256);

/// Sixteen float32 lanes.
#[derive(Clone, Copy)]
pub struct Floats([__m256; 2]);

/// All lanes from those of the parts.
#[inline(always)]
pub fn joined([low, high]: [Lanes; PARTS]) -> Floats {
    Floats([low.0, high.0])
}

#[inline(always)]
pub unsafe fn load_bytes(at: *const u8) -> Bytes {
    unsafe { Bytes(_mm256_load_si256(at.cast())) }
}

impl Bytes {
    #[inline(always)]
    pub fn splat(byte: u8) -> Self {
        unsafe { Self(_mm256_set1_epi8(byte.cast_signed())) }
    }

    /// Low four bits of each byte.
    #[inline(always)]
    pub fn low_nibbles(self) -> Self {
        unsafe { Self(_mm256_and_si256(self.0, _mm256_set1_epi8(15))) }
    }

    /// High four bits of each byte.
    #[inline(always)]
    pub fn high_nibbles(self) -> Self {
        unsafe { Self(_mm256_and_si256(_mm256_srli_epi16::<4>(self.0), _mm256_set1_epi8(15))) }
    }

    /// Byte `j` of each lane as a float, 0 to 255.
    #[inline(always)]
    pub fn byte<const J: u32>(self) -> Lanes {
        unsafe {
            let shifted = match J {
                0 => self.0,
                1 => _mm256_srli_epi32::<8>(self.0),
                2 => _mm256_srli_epi32::<16>(self.0),
                _ => _mm256_srli_epi32::<24>(self.0),
            };
            Lanes(_mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(255))))
        }
    }

    /// These bytes with 16 added where the matching bit of those at `bits` is set.
    #[inline(always)]
    pub unsafe fn with_bit_4(self, bits: *const u8) -> Self {
        unsafe { Self(_mm256_or_si256(self.0, spread(bits.cast::<u32>().read_unaligned()))) }
    }

    /// These bytes, below 16, with bits `2 * FIELD` and `2 * FIELD + 1` of those of `high` above them.
    #[inline(always)]
    pub fn with_bits_4_5<const FIELD: u32>(self, high: Self) -> Self {
        unsafe {
            let shifted = match FIELD {
                0 => _mm256_slli_epi16::<4>(high.0),
                1 => _mm256_slli_epi16::<2>(high.0),
                2 => high.0,
                _ => _mm256_srli_epi16::<2>(high.0),
            };
            Self(_mm256_or_si256(self.0, _mm256_and_si256(shifted, _mm256_set1_epi8(0x30))))
        }
    }
}

impl Lanes {
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        unsafe { Self(_mm256_set1_ps(value)) }
    }

    /// Half floats to floats.
    #[inline(always)]
    pub unsafe fn load_half(at: *const u8) -> Self {
        unsafe { Self(_mm256_cvtph_ps(_mm_loadu_si128(at.cast()))) }
    }

    /// Bytes without sign to floats.
    #[inline(always)]
    pub unsafe fn load_unsigned(at: *const u8) -> Self {
        unsafe { Self(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast())))) }
    }

    /// Bytes with sign to floats.
    #[inline(always)]
    pub unsafe fn load_signed(at: *const u8) -> Self {
        unsafe { Self(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast())))) }
    }

    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
    }

    /// `self * factor + addend`, rounded once.
    #[inline(always)]
    pub fn times_plus(self, factor: Self, addend: Self) -> Self {
        unsafe { Self(_mm256_fmadd_ps(self.0, factor.0, addend.0)) }
    }
}

/// 16 in each byte whose bit is set.
#[inline(always)]
unsafe fn spread(bits: u32) -> __m256i {
    unsafe {
        let index = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
        let each = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), index);
        let bit = _mm256_set1_epi64x(0x8040201008040201_u64.cast_signed());
        _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(each, bit), bit), _mm256_set1_epi8(16))
    }
}

impl Floats {
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        unsafe { Self([_mm256_set1_ps(value); 2]) }
    }

    #[inline(always)]
    pub unsafe fn load(at: *const f32) -> Self {
        unsafe { Self([_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))]) }
    }

    #[inline(always)]
    pub unsafe fn store(self, at: *mut f32) {
        unsafe {
            _mm256_storeu_ps(at, self.0[0]);
            _mm256_storeu_ps(at.add(8), self.0[1]);
        }
    }

    /// Stores as half floats, rounding to nearest even.
    #[inline(always)]
    pub unsafe fn store_half(self, at: *mut u8) {
        unsafe {
            _mm_storeu_si128(at.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0[0]));
            _mm_storeu_si128(at.add(16).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0[1]));
        }
    }

    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        unsafe { Self([_mm256_add_ps(self.0[0], other.0[0]), _mm256_add_ps(self.0[1], other.0[1])]) }
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        unsafe { Self([_mm256_mul_ps(self.0[0], other.0[0]), _mm256_mul_ps(self.0[1], other.0[1])]) }
    }

    #[inline(always)]
    pub fn divided_by(self, other: Self) -> Self {
        unsafe { Self([_mm256_div_ps(self.0[0], other.0[0]), _mm256_div_ps(self.0[1], other.0[1])]) }
    }

    /// Between `low` and `high`; NaN stays NaN.
    #[inline(always)]
    pub fn clamped(self, low: f32, high: f32) -> Self {
        let clamp =
            |half| unsafe { _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), half)) };
        Self(self.0.map(clamp))
    }

    /// The nearest whole number, ties to even.
    #[inline(always)]
    pub fn rounded(self) -> Self {
        Self(self.0.map(|half| unsafe {
            _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(half)
        }))
    }

    /// 2 to the power of these whole numbers, -126 to 127.
    #[inline(always)]
    pub fn power_of_two(self) -> Self {
        Self(self.0.map(|half| unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(half), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
        }))
    }

    /// Neighbouring lanes change places.
    #[inline(always)]
    pub fn pairs_swapped(self) -> Self {
        Self(self.0.map(|half| unsafe { _mm256_permute_ps::<0b10_11_00_01>(half) }))
    }

    /// `self * factor + addend`, rounded once.
    #[inline(always)]
    pub fn times_plus(self, factor: Self, addend: Self) -> Self {
        unsafe {
            Self([
                _mm256_fmadd_ps(self.0[0], factor.0[0], addend.0[0]),
                _mm256_fmadd_ps(self.0[1], factor.0[1], addend.0[1]),
            ])
        }
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
    core::array::from_fn(|row| unsafe { dot::<L>(weights, bytes[row], starts[row]) })
}

/// The dot product with one row.
///
/// Pairs are summed in 16 bits, which holds 8 pairs of products up to 15 * 127, 4 up to 31 * 127, or 2 up to 63 * 127; for
/// larger weights the offset of 128 is taken off first (so `start` is not needed) and the sign is moved to the
/// activations, since 128 * 127 * 2 still fits.
#[inline(always)]
unsafe fn dot<L: Layout>(weights: &[Bytes], bytes: *const i8, start: i32) -> Lanes {
    unsafe {
        let words = bytes.cast::<i32>();
        let run = match L::MOST {
            0..=15 => 8,
            16..=31 => 4,
            32..=63 => 2,
            _ => 1,
        };
        let mut sum = _mm256_set1_epi32(if L::MOST > 63 { 0 } else { start });
        for first in (0..weights.len()).step_by(run) {
            let mut pairs = _mm256_setzero_si256();
            for (i, weight) in weights.iter().enumerate().skip(first).take(run) {
                let activation = _mm256_set1_epi32(words.add(i).read_unaligned());
                let product = if L::MOST > 63 {
                    let signed = _mm256_xor_si256(weight.0, _mm256_set1_epi8(-128));
                    _mm256_maddubs_epi16(_mm256_abs_epi8(signed), _mm256_sign_epi8(activation, signed))
                } else {
                    _mm256_maddubs_epi16(weight.0, activation)
                };
                pairs = if run == 1 { product } else { _mm256_add_epi16(pairs, product) };
            }
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
        Lanes(_mm256_cvtepi32_ps(sum))
    }
}

/// The largest magnitude of 32 values. Compared as bits, so that NaN, whose bits are the largest, is not lost.
#[inline(always)]
pub fn largest_magnitude(values: [Floats; 2]) -> f32 {
    unsafe {
        let bits = |half| _mm256_and_si256(_mm256_castps_si256(half), _mm256_set1_epi32(0x7fff_ffff));
        let [a, b] = values.map(|half| _mm256_max_epu32(bits(half.0[0]), bits(half.0[1])));
        let eight = _mm256_max_epu32(a, b);
        let four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
        let two = _mm_max_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
        f32::from_bits(_mm_cvtsi128_si32(one).cast_unsigned())
    }
}

/// Stores 32 values rounded to bytes, ties to even; the sums of their `SUMS` parts: of all, or of each half.
#[inline(always)]
pub unsafe fn store_rounded<const SUMS: usize>(values: [Floats; 2], bytes: *mut i8) -> [i32; SUMS] {
    unsafe {
        let [a, b] = values.map(|half| half.0.map(|quarter| _mm256_cvtps_epi32(quarter)));
        let (low, high) = (_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(b[0], b[1]));
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256(bytes.cast(), _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
        let halves = [a, b].map(|half| _mm256_add_epi32(half[0], half[1]));
        if SUMS == 1 {
            return [folded(_mm256_add_epi32(halves[0], halves[1])); SUMS];
        }
        core::array::from_fn(|i| folded(halves[i]))
    }
}

/// The sum of the lanes.
#[inline(always)]
unsafe fn folded(eight: __m256i) -> i32 {
    unsafe {
        let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
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
