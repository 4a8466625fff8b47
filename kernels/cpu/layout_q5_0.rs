//! Layout `q5_0.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 32 inputs: scale f16, the fifth bits of all inputs in 4 bytes, 16 bytes
//! of nibbles; weight = scale * (five bits - 16).
//!
//! Packed: a panel is 16 output rows (rows past the last have scale zero): first the scales of all its blocks, 16 a
//! block, up to a multiple of 64 bytes; then, for each block, the nibbles as `layout_nibbles.rs` has them and 64 bytes of
//! fifth bits: eight words of 64, word i, bit 4r + j = input 4i + j of row r.
#![allow(dead_code)]

use crate::layout::Layout;
use crate::nibbles;
use crate::simd::{Bytes, Lanes, PARTS};

/// The layout.
pub struct Packed;

impl Layout for Packed {
    const STORED_INPUTS: usize = 32;
    const STORED_BYTES: usize = 22;
    const HEAD_BYTES: usize = 32;
    const BODY_BYTES: usize = nibbles::BYTES + 64;
    const MOST: u32 = 31;
    const ZERO: i32 = 16;

    type Shared = ();

    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, body: *mut u8) {
        for row in 0..rows {
            unsafe {
                let block = stored.add(row * row_bytes);
                core::ptr::copy_nonoverlapping(block, head.add(2 * row), 2);
                nibbles::pack(block.add(6), row, body);
                let fifths = block.add(2).cast::<u32>().read_unaligned();
                let words = body.add(nibbles::BYTES).cast::<u64>();
                for input in 0..32 {
                    let bit = u64::from(fifths >> input & 1) << (4 * row + input % 4);
                    *words.add(input / 4) |= bit;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn shared(_head: *const u8, _part: usize) {}

    #[inline(always)]
    unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
        unsafe {
            let low = nibbles::unpack(body, part);
            core::array::from_fn(|i| low[i].with_bit_4(body.add(nibbles::BYTES + 8 * i + part * (8 / PARTS))))
        }
    }

    #[inline(always)]
    unsafe fn scale(_shared: (), head: *const u8, _block: usize, _number: usize, part: usize) -> Lanes {
        unsafe { Lanes::load_half(head.add(part * (32 / PARTS))) }
    }
}
