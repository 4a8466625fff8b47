//! softmax(scale * q . k) v for one head of one row, in one pass over blocks of positions.
#![allow(dead_code)]

use crate::sum::{dot, multiply_add};

/// Positions whose scores are held at a time; blocks start at the first visible position.
const BLOCK: usize = 64;

/// The mix of `value(s)` by the softmax of `scale * (q . key(s))` over the positions `visible`, into `mixed`.
#[inline(always)]
pub fn mix<const DIM: usize>(
    q: &[f32],
    scale: f32,
    visible: core::ops::Range<usize>,
    key: impl Fn(usize) -> [f32; DIM],
    value: impl Fn(usize) -> [f32; DIM],
    mixed: &mut [f32],
) {
    let (mut largest, mut total) = (f32::NEG_INFINITY, 0.0);
    let mut sums = [0.0; DIM];
    for start in visible.clone().step_by(BLOCK) {
        let end = visible.end.min(start + BLOCK);
        let mut scores = [f32::NEG_INFINITY; BLOCK];
        for position in start..end {
            scores[position - start] = scale * dot(q, &key(position));
        }
        let block_largest = scores.iter().fold(largest, |most, &score| most.max(score));
        // What was summed so far was weighed against a smaller maximum.
        let shrink = (largest - block_largest).exp();
        largest = block_largest;
        total *= shrink;
        sums.iter_mut().for_each(|sum| *sum *= shrink);
        for position in start..end {
            let weight = (scores[position - start] - largest).exp();
            total += weight;
            for (sum, value) in sums.iter_mut().zip(value(position)) {
                *sum = multiply_add(weight, value, *sum);
            }
        }
    }
    for (mixed, sum) in mixed.iter_mut().zip(sums) {
        *mixed = sum / total;
    }
}
