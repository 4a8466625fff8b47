//! Layout `q6_k.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 256 inputs: 128 bytes of low four bits, 64 bytes of high two bits, a signed factor of
//! one byte for each of sixteen parts of 16 inputs, scale f16; weight = scale * factor * (six bits - 32).
//!
//! Packed: a panel is 16 output rows (rows past the last have scale zero): first the heads of all its stored blocks, up to
//! a multiple of 64 bytes: 16 scales, then for each part 16 factors. Then, for each 32 inputs, the low bits as
//! `layout_nibbles.rs` has them and two lines of high bits: line h, lane r, byte j, bits 2f and 2f + 1 = input
//! 16h + 4f + j of row r. Scale times factor is worked out in float32, where it is exact.
#![allow(dead_code)]

use crate::layout::{BLOCK, Layout};
use crate::nibbles;
use crate::simd::{Bytes, Lanes, PARTS, load_bytes};

/// The layout.
pub struct Packed;

/// Where the factors of scale `number` of block `block` stand in a head.
const fn factors(block: usize, number: usize) -> usize {
    32 + 32 * block + 16 * number
}

/// Byte of the high bits of input `input` of row `row` in a body, and how far they are shifted.
const fn high_place(row: usize, input: usize) -> (usize, usize) {
    (nibbles::BYTES + 64 * (input / 16) + 4 * row + input % 4, input / 4 % 4 * 2)
}

impl Packed {
    /// Weight of input `input` of row `row` in block `block` of a head, with `half` turning half floats into floats.
    pub unsafe fn weight(
        head: *const u8,
        body: *const u8,
        (block, row, input): (usize, usize, usize),
        half: impl Fn(u16) -> f32,
    ) -> f32 {
        unsafe {
            let scale = half(head.cast::<u16>().add(row).read());
            let factor = f32::from((*head.add(factors(block, input / 16) + row)).cast_signed());
            let (at, shift) = high_place(row, input);
            let six = nibbles::get(body, row, input) | (*body.add(at) >> shift & 3) << 4;
            (scale * factor) * (f32::from(six) - 32.0)
        }
    }
}

impl Layout for Packed {
    const STORED_INPUTS: usize = 256;
    const STORED_BYTES: usize = 210;
    const HEAD_BYTES: usize = factors(Self::BLOCKS, 0);
    const BODY_BYTES: usize = nibbles::BYTES + 128;
    const MOST: u32 = 63;
    const ZERO: i32 = 32;
    const SCALES: usize = 2;

    /// Scales of the stored blocks.
    type Shared = Lanes;

    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, bodies: *mut u8) {
        for row in 0..rows {
            unsafe {
                let from = stored.add(row * row_bytes);
                head.cast::<u16>().add(row).write(from.add(208).cast::<u16>().read_unaligned());
                for block in 0..Self::BLOCKS {
                    let body = bodies.add(block * Self::BODY_BYTES);
                    for number in 0..Self::SCALES {
                        *head.add(factors(block, number) + row) = *from.add(192 + 2 * block + number);
                    }
                    // Four blocks share 64 bytes of low bits and 32 of high ones.
                    let (side, quarter) = (block / 4, block % 4);
                    let low = from.add(side * 64 + quarter % 2 * 32);
                    let high = from.add(128 + side * 32);
                    for input in 0..BLOCK {
                        nibbles::put(body, row, input, *low.add(input) >> (quarter / 2 * 4) & 15);
                        let (at, shift) = high_place(row, input);
                        *body.add(at) |= (*high.add(input) >> (quarter * 2) & 3) << shift;
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn shared(head: *const u8, part: usize) -> Lanes {
        unsafe { Lanes::load_half(head.add(part * (32 / PARTS))) }
    }

    #[inline(always)]
    unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
        unsafe {
            let low = nibbles::unpack(body, part);
            let [first, second] =
                [0, 64].map(|at| load_bytes(body.wrapping_add(nibbles::BYTES + at + part * (64 / PARTS))));
            [
                low[0].with_bits_4_5::<0>(first),
                low[1].with_bits_4_5::<1>(first),
                low[2].with_bits_4_5::<2>(first),
                low[3].with_bits_4_5::<3>(first),
                low[4].with_bits_4_5::<0>(second),
                low[5].with_bits_4_5::<1>(second),
                low[6].with_bits_4_5::<2>(second),
                low[7].with_bits_4_5::<3>(second),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scale(scales: Lanes, head: *const u8, block: usize, number: usize, part: usize) -> Lanes {
        unsafe { scales.times(Lanes::load_signed(head.add(factors(block, number) + part * (16 / PARTS)))) }
    }
}
