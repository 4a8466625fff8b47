//! What this machine can do: read bandwidth and peak float32 arithmetic, by number of threads.

use crate::cores;
use crate::memory::{Pages, Region};
use crate::pool::{Pool, PoolOptions};
use enginewright_core::error::EngineError;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Samples of one rate with one number of threads.
#[derive(Debug, Clone)]
pub struct Rate {
    pub threads: usize,
    /// Units a second, in the order taken.
    pub samples: Vec<f64>,
}

impl Rate {
    /// The best sample: what the machine can do when nobody disturbs it.
    pub fn best(&self) -> f64 {
        self.samples.iter().copied().fold(0.0, f64::max)
    }

    /// Median of the samples.
    pub fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

/// Samples of each rate, at least.
const SAMPLES: usize = 9;
/// Time that they take together, at least: a buffer that a cache holds is read in a few milliseconds, and neither
/// clock nor cache has settled after nine of those.
const SETTLED: Duration = Duration::from_millis(400);
/// Rounds of fused multiply-adds in one sample.
const ROUNDS: usize = 2_000_000;

/// 1, 2, 4… threads, then all cores.
pub fn thread_counts(cores: usize) -> Vec<usize> {
    let cores = cores.max(1);
    let mut counts: Vec<usize> = (0..).map(|i| 1 << i).take_while(|&count| count < cores).collect();
    counts.push(cores);
    counts
}

/// Bytes a second that `threads` threads read from a buffer of `bytes` bytes, over and over: of the memory if that
/// is far larger than the last cache, else of the cache that holds it.
///
/// # Errors
/// [`EngineError::Memory`] if the buffer or the threads cannot be had.
pub fn read_bandwidth(bytes: usize, counts: &[usize]) -> Result<Vec<Rate>, EngineError> {
    let words = bytes / size_of::<u64>();
    let mut region = Region::reserve(words * size_of::<u64>(), Pages::Huge, "the bandwidth test")?;
    // SAFETY: the region is aligned, zeroed, of this size, and borrowed by nobody else.
    let buffer = unsafe { std::slice::from_raw_parts_mut(region.start().cast::<u64>(), words) };
    // Untouched memory is one shared page of zeros: it would be read from cache.
    buffer.fill(0x5851_f42d_4c95_7f2d);
    let buffer = &*buffer;
    counts
        .iter()
        .map(|&threads| {
            sample(threads, (words * 8) as f64, |thread| {
                let each = words / threads;
                black_box(sum(black_box(&buffer[thread * each..(thread + 1) * each])));
            })
        })
        .collect()
}

/// Float32 operations a second (a fused multiply-add is two) with the widest vectors of this processor.
///
/// # Errors
/// [`EngineError::Memory`] if the threads cannot be had.
pub fn peak_f32(counts: &[usize]) -> Result<Vec<Rate>, EngineError> {
    let work = |threads: usize| (threads * ROUNDS) as f64 * arithmetic::operations_a_round() as f64;
    counts
        .iter()
        .map(|&threads| {
            sample(threads, work(threads), |_| {
                black_box(arithmetic::run(black_box(ROUNDS)));
            })
        })
        .collect()
}

/// Times `job` on `threads` pinned threads, after two unmeasured runs.
fn sample(threads: usize, work: f64, job: impl Fn(usize) + Sync) -> Result<Rate, EngineError> {
    let spin = Duration::from_millis(1);
    let mut pool = Pool::start(&PoolOptions { threads, spin, cores: cores::allowed() })?;
    for _ in 0..2 {
        pool.run(&|thread, _, _| job(thread));
    }
    let mut samples = Vec::with_capacity(SAMPLES);
    let start = Instant::now();
    while samples.len() < SAMPLES || start.elapsed() < SETTLED {
        let begin = Instant::now();
        pool.run(&|thread, _, _| job(thread));
        samples.push(work / begin.elapsed().as_secs_f64());
    }
    Ok(Rate { threads, samples })
}

/// Sum of all words, read with the widest loads there are.
fn sum(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn sum_512(words: &[u64]) -> u64 {
            sum_words(words)
        }
        #[target_feature(enable = "avx2")]
        fn sum_256(words: &[u64]) -> u64 {
            sum_words(words)
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature.
            return unsafe { sum_512(words) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { sum_256(words) };
        }
    }
    sum_words(words)
}

#[inline(always)]
fn sum_words(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// Independent chains of fused multiply-adds: enough to hide their latency, few enough for the registers.
mod arithmetic {
    use std::hint::black_box;

    const CHAINS: usize = 12;

    /// Float32 operations of one round.
    pub fn operations_a_round() -> usize {
        2 * CHAINS * lanes()
    }

    #[cfg(target_arch = "x86_64")]
    fn lanes() -> usize {
        match () {
            () if is_x86_feature_detected!("avx512f") => 16,
            () if is_x86_feature_detected!("fma") => 8,
            () => 4,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn lanes() -> usize {
        4
    }

    /// Runs `rounds` rounds; the value keeps the compiler from leaving them out.
    pub fn run(rounds: usize) -> f32 {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has the feature.
                return unsafe { chains_512(rounds) };
            }
            if is_x86_feature_detected!("fma") {
                // SAFETY: the processor has the feature; `fma` implies AVX.
                return unsafe { chains_256(rounds) };
            }
        }
        chains_plain(rounds)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn chains_512(rounds: usize) -> f32 {
        use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_reduce_add_ps, _mm512_set1_ps};
        let (factor, term) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut chains = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm512_fmadd_ps(*chain, factor, term);
            }
        }
        chains.iter().map(|chain| _mm512_reduce_add_ps(*chain)).sum()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx,fma")]
    fn chains_256(rounds: usize) -> f32 {
        use std::arch::x86_64::{_mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps};
        let (factor, term) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut chains = [_mm256_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm256_fmadd_ps(*chain, factor, term);
            }
        }
        chains.iter().map(|chain| _mm256_cvtss_f32(*chain)).sum()
    }

    /// Four lanes of separate multiplications and additions, or whatever the compiler makes of them.
    fn chains_plain(rounds: usize) -> f32 {
        let (factor, term) = (black_box(0.999f32), black_box(0.001f32));
        let mut chains = [[1.0f32; 4]; CHAINS];
        for _ in 0..rounds {
            for lane in chains.iter_mut().flatten() {
                *lane = *lane * factor + term;
            }
        }
        chains.iter().flatten().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_and_end_with_all_cores() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(0), [1]);
    }

    #[test]
    fn the_sum_reads_every_word_once() {
        for length in [0, 1, 63, 64, 65, 1000, 4099] {
            let words: Vec<u64> = (1..=length).collect();
            assert_eq!(sum(&words), length * (length + 1) / 2, "{length} words");
        }
    }

    #[test]
    fn rates_are_positive_and_finite() {
        let rates = read_bandwidth(1 << 20, &[1]).unwrap();
        assert!(rates[0].samples.len() >= SAMPLES);
        assert!(rates[0].samples.iter().all(|rate| rate.is_finite() && *rate > 0.0));
    }
}
