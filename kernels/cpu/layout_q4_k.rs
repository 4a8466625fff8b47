//! Layout `q4_k.x16`: sixteen output rows side by side, in nearly the bytes of the stored format (148 for 144).
//!
//! Stored (GGUF): a row is blocks of 256 inputs: scale f16, minimum f16, then for each of eight parts of 32 inputs a factor
//! of the scale and one of the minimum, six bits each, packed into 12 bytes, then 128 bytes of nibbles; weight = scale *
//! factor * nibble - minimum * factor of the minimum.
//!
//! Packed: a panel is 16 output rows (rows past the last are zero); its stored blocks follow each other. First the head:
//! 16 scales, 16 minima with their sign turned, then for each part 16 factors of the scale and 16 of the minimum, a byte
//! each. Then the nibbles of each part as `layout_nibbles.rs` has them. The products of scale and factor are worked out in
//! float32, where they are exact: nothing is rounded again.
#![allow(dead_code)]

use crate::layout::{BLOCK, Layout};
use crate::nibbles;
use crate::simd::{Bytes, Lanes, PARTS};

/// The layout.
pub struct Packed;

/// Where the factors of block `block` stand in a head.
const fn factors(block: usize) -> usize {
    64 + 32 * block
}

/// Factors of scale and minimum of part `part` out of the 12 bytes at `six`.
unsafe fn unpacked(six: *const u8, part: usize) -> (u8, u8) {
    let at = |i: usize| unsafe { *six.add(i) };
    if part < 4 {
        return (at(part) & 63, at(part + 4) & 63);
    }
    (at(part + 4) & 15 | at(part - 4) >> 6 << 4, at(part + 4) >> 4 | at(part) >> 6 << 4)
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
            let [scale, minimum] = [row, 16 + row].map(|i| half(head.cast::<u16>().add(i).read()));
            let [factor, offset] = [row, 16 + row].map(|i| f32::from(*head.add(factors(block) + i)));
            (scale * factor) * f32::from(nibbles::get(body, row, input)) + minimum * offset
        }
    }
}

impl Layout for Packed {
    const STORED_INPUTS: usize = 256;
    const STORED_BYTES: usize = 144;
    const HEAD_BYTES: usize = factors(Self::BLOCKS);
    const BODY_BYTES: usize = nibbles::BYTES;
    const MOST: u32 = 15;
    const HAS_MINIMUM: bool = true;

    /// Scales and minima of the stored blocks.
    type Shared = [Lanes; 2];

    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, bodies: *mut u8) {
        for row in 0..rows {
            unsafe {
                let from = stored.add(row * row_bytes);
                let halves = head.cast::<u16>();
                halves.add(row).write(from.cast::<u16>().read_unaligned());
                halves.add(16 + row).write(from.add(2).cast::<u16>().read_unaligned() ^ 0x8000);
                for block in 0..Self::BLOCKS {
                    let (factor, offset) = unpacked(from.add(4), block);
                    *head.add(factors(block) + row) = factor;
                    *head.add(factors(block) + 16 + row) = offset;
                    // Two parts share 32 bytes: the even one has the low nibbles.
                    let pairs = from.add(16 + block / 2 * 32);
                    let body = bodies.add(block * Self::BODY_BYTES);
                    for input in 0..BLOCK {
                        nibbles::put(body, row, input, *pairs.add(input) >> (block % 2 * 4) & 15);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn shared(head: *const u8, part: usize) -> Self::Shared {
        [0, 32].map(|at| unsafe { Lanes::load_half(head.add(at + part * (32 / PARTS))) })
    }

    #[inline(always)]
    unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
        unsafe { nibbles::unpack(body, part) }
    }

    #[inline(always)]
    unsafe fn scale(
        [scales, _]: Self::Shared,
        head: *const u8,
        block: usize,
        _number: usize,
        part: usize,
    ) -> Lanes {
        unsafe { scales.times(Lanes::load_unsigned(head.add(factors(block) + part * (16 / PARTS)))) }
    }

    #[inline(always)]
    unsafe fn minimum([_, minima]: Self::Shared, head: *const u8, block: usize, part: usize) -> Lanes {
        unsafe { minima.times(Lanes::load_unsigned(head.add(factors(block) + 16 + part * (16 / PARTS)))) }
    }
}
