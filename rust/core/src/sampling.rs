//! From logits to a token: greedy or drawn, with a random stream that depends on the request alone.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How a request chooses its tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this; 0 takes the largest logit.
    pub temperature: f32,
    /// Least probability mass to keep, from the likeliest token down; 1 keeps all.
    pub top_p: f32,
    /// Most tokens to keep; 0 keeps all.
    pub top_k: usize,
    /// Keeps tokens of at least this share of the likeliest one's probability; 0 keeps all.
    pub min_p: f32,
    /// Names the random stream.
    pub seed: u64,
    /// Added to the logits of single tokens.
    pub bias: Vec<(u32, f32)>,
}

impl Sampling {
    /// The largest logit, always.
    pub const fn greedy() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0, bias: Vec::new() }
    }
}

/// A token with its log probability under the model, before any sampling setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    pub id: u32,
    /// In nats.
    pub logprob: f32,
}

/// Log probability of a token, and of the likeliest ones.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenScore {
    pub token: Scored,
    /// Likeliest first.
    pub top: Vec<Scored>,
}

/// Chooses tokens; owns the memory that this takes.
pub struct Sampler {
    logits: Vec<f32>,
    candidates: Vec<(f32, u32)>,
}

impl Sampler {
    /// A sampler for rows of `vocabulary` logits.
    pub fn new(vocabulary: usize) -> Self {
        Self { logits: Vec::with_capacity(vocabulary), candidates: Vec::with_capacity(vocabulary) }
    }

    /// The token for one row of logits; `draw` is the number of tokens the request has drawn before.
    pub fn choose(&mut self, logits: &[f32], sampling: &Sampling, draw: u64) -> u32 {
        if sampling.bias.is_empty() {
            return self.choose_unbiased(logits, sampling, draw);
        }
        let mut biased = std::mem::take(&mut self.logits);
        biased.clear();
        biased.extend_from_slice(logits);
        for (id, bias) in &sampling.bias {
            if let Some(logit) = biased.get_mut(*id as usize) {
                *logit += bias;
            }
        }
        let id = self.choose_unbiased(&biased, sampling, draw);
        self.logits = biased;
        id
    }

    fn choose_unbiased(&mut self, logits: &[f32], sampling: &Sampling, draw: u64) -> u32 {
        if sampling.temperature <= 0.0 {
            return largest(logits);
        }
        self.keep(logits, sampling);
        let total: f64 = self.candidates.iter().map(|(weight, _)| f64::from(*weight)).sum();
        let mut left = uniform(sampling.seed, draw) * total;
        for (weight, id) in &self.candidates {
            left -= f64::from(*weight);
            if left < 0.0 {
                return *id;
            }
        }
        // Rounding may leave a little: the last token that can be drawn takes it.
        let last = self.candidates.iter().rev().find(|(weight, _)| *weight > 0.0);
        last.map_or_else(|| largest(logits), |(_, id)| *id)
    }

    /// Fills `candidates` with unnormalised probabilities, in the order temperature, top k, top p, min p.
    fn keep(&mut self, logits: &[f32], sampling: &Sampling) {
        let kept = &mut self.candidates;
        kept.clear();
        kept.extend(logits.iter().zip(0u32..).map(|(logit, id)| (*logit, id)));
        if sampling.top_k > 0 && sampling.top_k < kept.len() {
            kept.select_nth_unstable_by(sampling.top_k - 1, likelier);
            kept.truncate(sampling.top_k);
        }
        let most = kept.iter().map(|(logit, _)| *logit).fold(f32::NEG_INFINITY, f32::max);
        for (value, _) in kept.iter_mut() {
            *value = ((*value - most) / sampling.temperature).exp();
        }
        // One order for the draw, whatever the selections left behind.
        if sampling.top_p < 1.0 {
            cut_mass(kept, f64::from(sampling.top_p));
        } else if sampling.top_k > 0 {
            kept.sort_unstable_by(likelier);
        }
        if sampling.min_p > 0.0 {
            // The likeliest has weight 1.
            kept.retain(|(weight, _)| *weight >= sampling.min_p);
        }
    }

    /// Log probabilities of `id` and of the `top` likeliest tokens.
    pub fn score(&mut self, logits: &[f32], id: u32, top: usize) -> TokenScore {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
        let logprob = |logit: f32| (f64::from(logit - most) - sum.ln()) as f32;
        let top = top.min(logits.len());
        let mut likeliest = Vec::with_capacity(top);
        if top == 1 {
            let id = largest(logits);
            likeliest.push(Scored { id, logprob: logprob(logits[id as usize]) });
        } else if top > 1 {
            let kept = &mut self.candidates;
            kept.clear();
            kept.extend(logits.iter().zip(0u32..).map(|(logit, id)| (*logit, id)));
            kept.select_nth_unstable_by(top - 1, likelier);
            kept.truncate(top);
            kept.sort_unstable_by(likelier);
            likeliest.extend(kept.iter().map(|(logit, id)| Scored { id: *id, logprob: logprob(*logit) }));
        }
        TokenScore { token: Scored { id, logprob: logprob(logits[id as usize]) }, top: likeliest }
    }
}

/// The likelier first; of equals the lower id, so that the order is the same everywhere.
fn likelier(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Leaves the likeliest that together have at least the share `top_p` of all weight, in order.
fn cut_mass(kept: &mut Vec<(f32, u32)>, top_p: f64) {
    let total: f64 = kept.iter().map(|(weight, _)| f64::from(*weight)).sum();
    // A few tokens usually hold the mass: sorting the whole vocabulary would cost as much as a small model's step.
    let mut few = 64;
    while few < kept.len() {
        kept.select_nth_unstable_by(few - 1, likelier);
        let held: f64 = kept[..few].iter().map(|(weight, _)| f64::from(*weight)).sum();
        if held >= top_p * total {
            break;
        }
        few *= 8;
    }
    kept.truncate(few);
    kept.sort_unstable_by(likelier);
    let mut mass = 0.0;
    let enough = kept.iter().position(|(weight, _)| {
        mass += f64::from(*weight);
        mass >= top_p * total
    });
    kept.truncate(enough.map_or(kept.len(), |last| last + 1));
}

/// Whether every value is a number. One pass that the compiler turns into vector instructions.
pub fn all_finite(values: &[f32]) -> bool {
    // 0 x is 0 for numbers and NaN for infinities and NaN, and a sum keeps a NaN.
    let mut lanes = [0.0f32; 16];
    let chunks = values.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().map(|value| value * 0.0).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * 0.0;
        }
    }
    lanes.into_iter().sum::<f32>() + rest == 0.0
}

/// Index of the largest value, the first of equals.
fn largest(values: &[f32]) -> u32 {
    // Two passes over independent lanes: the compiler turns the first into vector instructions.
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let most = lanes.into_iter().fold(rest, f32::max);
    values.iter().position(|value| *value == most).unwrap_or(0) as u32
}

/// Draw number `draw` of the stream that `seed` names, in [0, 1). Counter-based: company does not matter.
fn uniform(seed: u64, draw: u64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_word_pos(u128::from(draw) * 2);
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(temperature: f32) -> Sampling {
        Sampling { temperature, ..Sampling::greedy() }
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest() {
        let mut logits = vec![0.0; 40];
        logits[17] = 2.0;
        logits[33] = 2.0;
        assert_eq!(Sampler::new(40).choose(&logits, &Sampling::greedy(), 0), 17);
    }

    #[test]
    fn a_bias_can_turn_the_choice() {
        let with = Sampling { bias: vec![(2, 5.0)], ..Sampling::greedy() };
        assert_eq!(Sampler::new(3).choose(&[1.0, 0.0, 0.0], &with, 0), 2);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.0, (3.0f32).ln()];
        let mut sampler = Sampler::new(2);
        let ones = (0..4000).filter(|draw| sampler.choose(&logits, &sampling(1.0), *draw) == 1).count();
        assert!((2850..3150).contains(&ones), "{ones} of 4000; expected about 3000");
    }

    #[test]
    fn the_same_seed_and_draw_give_the_same_token() {
        let logits: Vec<f32> = (0..100).map(|i| ((i * 37) % 11) as f32 / 3.0).collect();
        let (mut one, mut other) = (Sampler::new(100), Sampler::new(100));
        for draw in 0..50 {
            let seeded = Sampling { seed: 7, ..sampling(0.8) };
            assert_eq!(one.choose(&logits, &seeded, draw), other.choose(&logits, &seeded, draw));
        }
    }

    #[test]
    fn top_k_top_p_and_min_p_leave_only_the_likely() {
        let logits = [3.0, 2.9, -1.0, -2.0];
        let mut sampler = Sampler::new(4);
        let cases = [
            Sampling { top_k: 2, ..sampling(5.0) },
            Sampling { top_p: 0.9, ..sampling(1.0) },
            Sampling { min_p: 0.5, ..sampling(1.0) },
        ];
        for case in cases {
            let drawn: std::collections::BTreeSet<u32> =
                (0..300).map(|draw| sampler.choose(&logits, &case, draw)).collect();
            assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1], "{case:?}");
        }
    }

    #[test]
    fn a_large_nucleus_is_cut_where_a_sorted_one_is() {
        // 2,000 equal tokens: the nucleus of half the mass is 1,000 of them, beyond the first selection.
        let logits = vec![0.25f32; 2000];
        let mut sampler = Sampler::new(2000);
        sampler.keep(&logits, &Sampling { top_p: 0.5, ..sampling(1.0) });
        let ids: Vec<u32> = sampler.candidates.iter().map(|(_, id)| *id).collect();
        assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn one_value_that_is_no_number_is_found_anywhere() {
        let mut values = vec![1.0f32; 37];
        assert!(all_finite(&values));
        for (place, bad) in [(0, f32::NAN), (20, f32::INFINITY), (36, f32::NEG_INFINITY)] {
            values[place] = bad;
            assert!(!all_finite(&values));
            values[place] = 1.0;
        }
    }

    #[test]
    fn scores_are_log_probabilities() {
        let score = Sampler::new(3).score(&[0.0, 1.0, 2.0], 0, 2);
        let sum = (1f32 + 1f32.exp() + 2f32.exp()).ln();
        assert!((score.token.logprob + sum).abs() < 1e-6);
        assert_eq!(score.top.iter().map(|scored| scored.id).collect::<Vec<_>>(), [2, 1]);
        assert!((score.top[0].logprob - (2.0 - sum)).abs() < 1e-6);
    }
}
