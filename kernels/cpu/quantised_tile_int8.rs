//! The product of one panel (16 output rows) with a tile of prepared rows: 8-bit activations.
//!
//! A block of weights is unpacked once into registers and used for all rows of the tile. Each row has its own chain of
//! float32 sums over the blocks, in the order of the blocks, whatever the tile: so tiles of different sizes agree.

use crate::group::INPUTS;
use crate::layout::{BLOCK, Layout};
use crate::panels::Panel;
use crate::rows::{ROW_BYTES, Side, sides};
use crate::simd::{Floats, Lanes, PARTS, dots, joined, prefetch};

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
                let weights = L::weights(body, part);
                if PREFETCH > 0 && ROWS <= 2 && part == 0 {
                    for line in (0..Panel::<L, INPUTS>::body_step(block)).step_by(64) {
                        prefetch::<PREFETCH_LEVEL>(body.wrapping_add(PREFETCH + line));
                    }
                }
                let sides: [&Side; ROWS] =
                    core::array::from_fn(|i| &*sides(rows.add(i * ROW_BYTES)).add(first));
                // Weights of one scale after the other, so that few sums are in registers at a time.
                for (scale, weights) in weights.chunks_exact(weights.len() / L::SCALES).enumerate() {
                    let scales = L::scale(shared, head, block, scale, part);
                    let input = first * BLOCK + scale * (BLOCK / L::SCALES);
                    let bytes = core::array::from_fn(|i| rows.add(i * ROW_BYTES + input).cast());
                    let starts = sides.map(|side| if L::ZERO == 0 { 0 } else { side.starts[scale] });
                    let products = dots::<L, ROWS>(weights, bytes, starts);
                    for ((sum, product), side) in sums.iter_mut().zip(products).zip(sides) {
                        *sum = product.times_plus(scales.times(Lanes::splat(side.scale)), *sum);
                    }
                }
                if L::HAS_MINIMUM {
                    let minima = L::minimum(shared, head, block, part);
                    for (sum, side) in sums.iter_mut().zip(sides) {
                        *sum = minima.times_plus(Lanes::splat(side.total), *sum);
                    }
                }
            }
        }
    }
    sums
}
