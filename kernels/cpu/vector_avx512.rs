//! Float32 lanes for the float kernels: sixteen, AVX-512.
//!
//! The functions may be called where a kernel's `requires` hold; the object is compiled for that processor.
//! `vector_avx2.rs` has the same names with eight lanes.
#![allow(dead_code)]

use core::arch::x86_64::*;

/// Lanes of a vector.
pub const WIDTH: usize = 16;

/// Sixteen float32 lanes.
#[derive(Clone, Copy)]
pub struct Lanes(__m512);

impl Lanes {
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

    /// The first `count` lanes from memory, zero in the others; touches nothing past them.
    #[inline(always)]
    pub unsafe fn load_first(at: *const f32, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_loadu_ps(first(count), at)) }
    }

    /// Stores the first `count` lanes; touches nothing past them.
    #[inline(always)]
    pub unsafe fn store_first(self, at: *mut f32, count: usize) {
        unsafe { _mm512_mask_storeu_ps(at, first(count), self.0) }
    }

    /// Half floats.
    #[inline(always)]
    pub unsafe fn load_half(at: *const u16) -> Self {
        unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(at.cast()))) }
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
        unsafe { _mm256_storeu_si256(at.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }

    /// Brain floats: the upper halves of float32.
    #[inline(always)]
    pub unsafe fn load_brain(at: *const u16) -> Self {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }

    /// Signed bytes as floats.
    #[inline(always)]
    pub unsafe fn load_bytes(at: *const i8) -> Self {
        unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast())))) }
    }

    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn minus(self, other: Self) -> Self {
        unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn times(self, other: Self) -> Self {
        unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn over(self, other: Self) -> Self {
        unsafe { Self(_mm512_div_ps(self.0, other.0)) }
    }

    /// `self * factor + addend`, rounded once.
    #[inline(always)]
    pub fn times_plus(self, factor: Self, addend: Self) -> Self {
        unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, addend.0)) }
    }

    /// The larger of each lane; `other` where `self` is NaN.
    #[inline(always)]
    pub fn larger(self, other: Self) -> Self {
        unsafe { Self(_mm512_max_ps(self.0, other.0)) }
    }

    /// The smaller of each lane; `other` where `self` is NaN.
    #[inline(always)]
    pub fn smaller(self, other: Self) -> Self {
        unsafe { Self(_mm512_min_ps(self.0, other.0)) }
    }

    #[inline(always)]
    pub fn magnitude(self) -> Self {
        unsafe { Self(_mm512_abs_ps(self.0)) }
    }

    /// `self` with the sign of `other`.
    #[inline(always)]
    pub fn with_sign_of(self, other: Self) -> Self {
        unsafe {
            let sign = _mm512_set1_ps(-0.0);
            Self(_mm512_or_ps(_mm512_andnot_ps(sign, self.0), _mm512_and_ps(sign, other.0)))
        }
    }

    /// `yes` where `self < bound`, else `no`.
    #[inline(always)]
    pub fn choose_below(self, bound: Self, yes: Self, no: Self) -> Self {
        unsafe {
            let below = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, bound.0);
            Self(_mm512_mask_blend_ps(below, no.0, yes.0))
        }
    }

    /// The nearest whole number, halves to even.
    #[inline(always)]
    pub fn whole(self) -> Self {
        unsafe { Self(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
    }

    /// `self * 2^power` for whole `power`; underflows to zero.
    #[inline(always)]
    pub fn times_two_to(self, power: Self) -> Self {
        unsafe { Self(_mm512_scalef_ps(self.0, power.0)) }
    }

    /// Sum of the lanes, in a fixed order.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        unsafe { _mm512_reduce_add_ps(self.0) }
    }

    /// The largest lane.
    #[inline(always)]
    pub fn largest(self) -> f32 {
        unsafe { _mm512_reduce_max_ps(self.0) }
    }

    /// Lane `i` of the result is the sum of the lanes of vector `i`: halving and interleaving, 30 shuffles.
    #[inline(always)]
    pub fn sums(rows: [Self; WIDTH]) -> Self {
        unsafe {
            // One vector for four rows: in each 128-bit lane, the sums of that lane of the four.
            let mut fours = [_mm512_setzero_ps(); 4];
            for (four, rows) in fours.iter_mut().zip(rows.as_chunks::<4>().0) {
                let [a, b, c, d] = rows.map(|row| row.0);
                let first = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let second = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                let (first, second) = (_mm512_castps_pd(first), _mm512_castps_pd(second));
                let low = _mm512_castpd_ps(_mm512_unpacklo_pd(first, second));
                *four = _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
            }
            let halves = |a, b| {
                let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
            };
            Self(halves(halves(fours[0], fours[1]), halves(fours[2], fours[3])))
        }
    }
}

/// Exchanges rows and lanes.
#[inline(always)]
pub fn transpose(rows: &mut [Lanes; WIDTH]) {
    unsafe {
        let mut pairs = [_mm512_setzero_ps(); 16];
        for i in 0..8 {
            let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
            pairs[2 * i] = _mm512_unpacklo_ps(a, b);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(a, b);
        }
        // fours[4 i + j]: column 4 * (128-bit lane) + j of rows 4 i to 4 i + 3.
        let mut fours = [_mm512_setzero_ps(); 16];
        for i in 0..4 {
            for high in 0..2 {
                let a = _mm512_castps_pd(pairs[4 * i + high]);
                let b = _mm512_castps_pd(pairs[4 * i + 2 + high]);
                fours[4 * i + 2 * high] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                fours[4 * i + 2 * high + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
            }
        }
        for j in 0..4 {
            let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(fours[j], fours[4 + j]);
            let low_odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(fours[j], fours[4 + j]);
            let high = _mm512_shuffle_f32x4::<0b10_00_10_00>(fours[8 + j], fours[12 + j]);
            let high_odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(fours[8 + j], fours[12 + j]);
            rows[j] = Lanes(_mm512_shuffle_f32x4::<0b10_00_10_00>(low, high));
            rows[8 + j] = Lanes(_mm512_shuffle_f32x4::<0b11_01_11_01>(low, high));
            rows[4 + j] = Lanes(_mm512_shuffle_f32x4::<0b10_00_10_00>(low_odd, high_odd));
            rows[12 + j] = Lanes(_mm512_shuffle_f32x4::<0b11_01_11_01>(low_odd, high_odd));
        }
    }
}

/// A mask of the first `count` lanes; more than all is all.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    if count >= WIDTH { !0 } else { (1 << count) - 1 }
}

/// Asks for the cache line at `at`, which need not exist.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}
