//! The product of one panel (16 output rows) with a tile of prepared rows: float32 activations.
//!
//! Weight bytes become floats in registers, once for all rows of the tile. Each row has its own chains of float32 sums, in
//! the order of the inputs, whatever the tile: so tiles of different sizes agree.

use crate::group::INPUTS;
use crate::layout::{BLOCK, Layout};
use crate::panels::Panel;
use crate::rows::{ROW_BYTES, totals};
use crate::simd::{Floats, Lanes, PARTS, joined, prefetch};

/// Bytes ahead of the weights in use that are asked for; 0 leaves it to the processor. Larger tiles use the same weights
/// again and again, so only small ones ask.
const PREFETCH: usize = constant!("EW_PARAM_PREFETCH", 4096);
/// Cache level that they are asked into. The first has few requests in flight, too few for the bandwidth of one core.
const PREFETCH_LEVEL: usize = constant!("EW_PARAM_PREFETCH_LEVEL", 1);

/// Products of the panel with `ROWS` prepared rows that follow each other from `rows`.
#[inline(always)]
pub unsafe fn multiply<L: Layout, const ROWS: usize>(panel: *const u8, rows: *const u8) -> [Floats; ROWS] {
    let parts: [_; PARTS] =
        core::array::from_fn(|part| unsafe { multiply_part::<L, ROWS>(panel, part, rows) });
    core::array::from_fn(|row| joined(parts.map(|sums| sums[row])))
}

#[inline(always)]
unsafe fn multiply_part<L: Layout, const ROWS: usize>(
    panel: *const u8,
    part: usize,
    rows: *const u8,
) -> [Lanes; ROWS] {
    let mut sums = [Lanes::splat(0.0); ROWS];
    for number in 0..Panel::<L, INPUTS>::HEADS {
        let head = Panel::<L, INPUTS>::head(panel, number);
        let shared = unsafe { L::shared(head, part) };
        for block in 0..L::BLOCKS {
            let body = Panel::<L, INPUTS>::body(panel, number, block);
            let first = number * L::BLOCKS + block;
            unsafe {
                if PREFETCH > 0 && ROWS <= 2 && part == 0 {
                    for line in (0..Panel::<L, INPUTS>::body_step(block)).step_by(64) {
                        prefetch::<PREFETCH_LEVEL>(body.wrapping_add(PREFETCH + line));
                    }
                }
                let weights = L::weights(body, part);
                for (scale, weights) in weights.chunks_exact(weights.len() / L::SCALES).enumerate() {
                    let scales = L::scale(shared, head, block, scale, part);
                    // Four chains: one for each byte of a group of four inputs.
                    let mut products = [[Lanes::splat(0.0); 4]; ROWS];
                    for (group, bytes) in weights.iter().enumerate() {
                        let mut inputs =
                            [bytes.byte::<0>(), bytes.byte::<1>(), bytes.byte::<2>(), bytes.byte::<3>()];
                        if L::ZERO != 0 {
                            // Exact, and here rather than on the sums, where large numbers would cancel.
                            inputs = inputs.map(|input| input.plus(Lanes::splat(-(L::ZERO as f32))));
                        }
                        let input = first * BLOCK + scale * (BLOCK / L::SCALES) + 4 * group;
                        for (row, products) in products.iter_mut().enumerate() {
                            let x = rows.add(row * ROW_BYTES).cast::<f32>().add(input);
                            for (j, product) in products.iter_mut().enumerate() {
                                *product = inputs[j].times_plus(Lanes::splat(*x.add(j)), *product);
                            }
                        }
                    }
                    for (sum, [a, b, c, d]) in sums.iter_mut().zip(products) {
                        *sum = a.plus(b).plus(c.plus(d)).times_plus(scales, *sum);
                    }
                }
                if L::HAS_MINIMUM {
                    let minima = L::minimum(shared, head, block, part);
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let total = *totals(rows.add(row * ROW_BYTES)).add(first);
                        *sum = minima.times_plus(Lanes::splat(total), *sum);
                    }
                }
            }
        }
    }
    sums
}
