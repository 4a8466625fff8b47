//! Layout `q4_1.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 32 inputs: scale f16, minimum f16, 16 bytes; the low nibble of byte j is input j,
//! the high nibble input 16 + j; weight = scale * nibble + minimum.
//!
//! Packed: a panel is 16 output rows (rows past the last are zero); its blocks follow each other, 320 bytes each:
//! 16 scales, 16 minima, then the nibbles as `layout_nibbles.rs` has them.
#![allow(dead_code)]

#[path = "layout_nibbles.rs"]
mod nibbles;

use crate::simd::{Bytes, Lanes, PARTS};

/// Bytes of a stored block of 32 inputs of one row.
pub const STORED_BYTES: usize = 20;
/// Bytes of the scales (and minima) of a packed block.
pub const HEAD_BYTES: usize = 64;
/// Bytes of the weights of a packed block.
pub const BODY_BYTES: usize = nibbles::BYTES;
/// Largest weight byte.
pub const MOST: u32 = 15;
/// What a weight byte is when the weight is zero, before the minimum.
pub const ZERO: i32 = 0;
/// Whether blocks have a minimum.
pub const HAS_MINIMUM: bool = true;

/// Fills one packed block from the stored blocks of up to 16 rows, `row_bytes` apart.
pub unsafe fn pack_block(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, body: *mut u8) {
    for row in 0..rows {
        unsafe {
            let block = stored.add(row * row_bytes);
            core::ptr::copy_nonoverlapping(block, head.add(2 * row), 2);
            core::ptr::copy_nonoverlapping(block.add(2), head.add(32 + 2 * row), 2);
            nibbles::pack(block.add(4), row, body);
        }
    }
}

/// The weight bytes of part `part` of a block: entry i holds inputs 4i to 4i + 3.
#[inline(always)]
pub unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
    unsafe { nibbles::unpack(body, part) }
}

#[inline(always)]
pub unsafe fn scales(head: *const u8, part: usize) -> Lanes {
    unsafe { Lanes::load_half(head.add(part * (32 / PARTS))) }
}

#[inline(always)]
pub unsafe fn minima(head: *const u8, part: usize) -> Lanes {
    unsafe { Lanes::load_half(head.add(32 + part * (32 / PARTS))) }
}
