//! Float32 lanes for the float kernels: eight, AVX2 with FMA and F16C.
//!
//! The functions may be called where a kernel's `requires` hold; the object is compiled for that processor.
//! `vector_avx512.rs` has the same names with sixteen lanes.
#![allow(dead_code)]

use core::arch::x86_64::*;

/// Lanes of a vector.
pub const WIDTH: usize = 8;

/// Eight float32 lanes.
#[derive(Clone, Copy)]
pub struct Lanes(__m256);

impl Lanes {
    #[inline(always)]
    pub fn splat(value: f32) -> Self {
        unsafe { Self(_mm256_set1_ps(value)) }
    }

    #[inline(always)]
    pub unsafe fn load(at: *const f32) -> Self {
        unsafe { Self(_mm256_loadu_ps(at)) }
    }

    #[inline(always)]
    pub unsafe fn store(self, at: *mut f32) {
        unsafe { _mm256_storeu_ps(at, self.0) }
    }

    /// The first `count` lanes from memory, zero in the others; touches nothing past them.
    #[inline(always)]
    pub unsafe fn load_first(at: *const f32, count: usize) -> Self {
        unsafe { Self(_mm256_maskload_ps(at, first(count))) }
    }

    /// Stores the first `count` lanes; touches nothing past them.
    #[inline(always)]
    pub unsafe fn store_first(self, at: *mut f32, count: usize) {
        unsafe { _mm256_maskstore_ps(at, first(count), self.0) }
    }

    /// Half floats.
    #[inline(always)]
    pub unsafe fn load_half(at: *const u16) -> Self {
        unsafe { Self(_mm256_cvtph_ps(_mm_loadu_si128(at.cast()))) }
    }

    /// One half float in all lanes.
    #[inline(always)]
    pub unsafe fn splat_half(at: *const u16) -> Self {
        unsafe {
            let bits = _mm_cvtsi32_si128(i32::from(at.read_unaligned()));
            Self::splat(_mm_cvtss_f32(_mm_cvtph_ps(bits)))
        }
    }

    /// Stores as half floats, rounding to nearest even.
    #[inline(always)]
    pub unsafe fn store_half(self, at: *mut u16) {
        unsafe { _mm_storeu_si128(at.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }

    /// Brain floats: the upper halves of float32.
    #[inline(always)]
    pub unsafe fn load_brain(at: *const u16) -> Self {
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
        }
    }

    /// Signed bytes as floats.
    #[inline(always)]
    pub unsafe fn load_bytes(at: *const i8) -> Self {
        unsafe { Self(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast())))) }
    }

    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn minus(self, other: Self) -> Self {
        unsafe { Self(_mm256_sub_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn over(self, other: Self) -> Self {
        unsafe { Self(_mm256_div_ps(self.0, other.0)) }
    }

    /// `self * factor + addend`, rounded once.
    #[inline(always)]
    pub fn times_plus(self, factor: Self, addend: Self) -> Self {
        unsafe { Self(_mm256_fmadd_ps(self.0, factor.0, addend.0)) }
    }

    /// The larger of each lane; `other` where `self` is NaN.
    #[inline(always)]
    pub fn larger(self, other: Self) -> Self {
        unsafe { Self(_mm256_max_ps(self.0, other.0)) }
    }

    /// The smaller of each lane; `other` where `self` is NaN.
    #[inline(always)]
    pub fn smaller(self, other: Self) -> Self {
        unsafe { Self(_mm256_min_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn magnitude(self) -> Self {
        unsafe { Self(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)) }
    }

    /// `self` with the sign of `other`.
    #[inline(always)]
    pub fn with_sign_of(self, other: Self) -> Self {
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            Self(_mm256_or_ps(_mm256_andnot_ps(sign, self.0), _mm256_and_ps(sign, other.0)))
        }
    }

    /// `yes` where `self < bound`, else `no`.
    #[inline(always)]
    pub fn choose_below(self, bound: Self, yes: Self, no: Self) -> Self {
        unsafe { Self(_mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, bound.0))) }
    }

    /// The nearest whole number, halves to even.
    #[inline(always)]
    pub fn whole(self) -> Self {
        unsafe { Self(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
    }

    /// `self * 2^power` for whole `power` of at most 128; underflows to zero.
    #[inline(always)]
    pub fn times_two_to(self, power: Self) -> Self {
        unsafe {
            // Two factors, since 2^power itself may leave the range of float32 where the product does not.
            let power = _mm256_cvtps_epi32(power.larger(Self::splat(-252.0)).0);
            let half = _mm256_srai_epi32::<1>(power);
            let rest = _mm256_sub_epi32(power, half);
            self.times(two_to(half)).times(two_to(rest))
        }
    }

    /// Sum of the lanes, in a fixed order.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    /// The largest lane.
    #[inline(always)]
    pub fn largest(self) -> f32 {
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }

    /// Lane `i` of the result is the sum of the lanes of vector `i`: halving and interleaving, 8 shuffles.
    #[inline(always)]
    pub fn sums(rows: [Self; WIDTH]) -> Self {
        unsafe {
            let mut fours = [_mm256_setzero_ps(); 2];
            for (four, rows) in fours.iter_mut().zip(rows.as_chunks::<4>().0) {
                let [a, b, c, d] = rows.map(|row| row.0);
                *four = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            }
            let low = _mm256_permute2f128_ps::<0x20>(fours[0], fours[1]);
            Self(_mm256_add_ps(low, _mm256_permute2f128_ps::<0x31>(fours[0], fours[1])))
        }
    }
}

/// 2^power as float32, for powers from -126 to 127.
#[inline(always)]
fn two_to(power: __m256i) -> Lanes {
    unsafe {
        let biased = _mm256_add_epi32(power, _mm256_set1_epi32(127));
        Lanes(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
    }
}

/// Exchanges rows and lanes.
#[inline(always)]
pub fn transpose(rows: &mut [Lanes; WIDTH]) {
    unsafe {
        let mut pairs = [_mm256_setzero_ps(); 8];
        for i in 0..4 {
            let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
            pairs[2 * i] = _mm256_unpacklo_ps(a, b);
            pairs[2 * i + 1] = _mm256_unpackhi_ps(a, b);
        }
        // fours[4 i + j]: column 4 * (128-bit lane) + j of rows 4 i to 4 i + 3.
        let mut fours = [_mm256_setzero_ps(); 8];
        for i in 0..2 {
            for high in 0..2 {
                let a = _mm256_castps_pd(pairs[4 * i + high]);
                let b = _mm256_castps_pd(pairs[4 * i + 2 + high]);
                fours[4 * i + 2 * high] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
                fours[4 * i + 2 * high + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
            }
        }
        for j in 0..4 {
            rows[j] = Lanes(_mm256_permute2f128_ps::<0x20>(fours[j], fours[4 + j]));
            rows[4 + j] = Lanes(_mm256_permute2f128_ps::<0x31>(fours[j], fours[4 + j]));
        }
    }
}

/// A mask of the first `count` lanes; more than all is all.
#[inline(always)]
fn first(count: usize) -> __m256i {
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(WIDTH) as i32), lanes)
    }
}

/// Asks for the cache line at `at`, which need not exist.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}
