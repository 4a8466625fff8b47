//! Layout `q4_0.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 32 inputs: scale f16, 16 bytes of nibbles; weight = scale * (nibble - 8).
//!
//! Packed: a panel is 16 output rows (rows past the last have scale zero): first the scales of all its blocks, 16 a
//! block, up to a multiple of 64 bytes; then the nibbles as `layout_nibbles.rs` has them, 256 bytes a block.
#![allow(dead_code)]

#[path = "layout_nibbles.rs"]
mod nibbles;

use crate::simd::{Bytes, Lanes, PARTS};

/// Bytes of a stored block of 32 inputs of one row.
pub const STORED_BYTES: usize = 18;
/// Bytes of the scales of a packed block.
pub const HEAD_BYTES: usize = 32;
/// Bytes of the weights of a packed block.
pub const BODY_BYTES: usize = nibbles::BYTES;
/// Largest weight byte.
pub const MOST: u32 = 15;
/// What a weight byte is when the weight is zero.
pub const ZERO: i32 = 8;
/// Whether blocks have a minimum.
pub const HAS_MINIMUM: bool = false;

/// Fills one packed block from the stored blocks of up to 16 rows, `row_bytes` apart.
pub unsafe fn pack_block(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, body: *mut u8) {
    for row in 0..rows {
        unsafe {
            let block = stored.add(row * row_bytes);
            core::ptr::copy_nonoverlapping(block, head.add(2 * row), 2);
            nibbles::pack(block.add(2), row, body);
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

/// Never asked: the format has none.
#[inline(always)]
pub unsafe fn minima(_head: *const u8, _part: usize) -> Lanes {
    Lanes::splat(0.0)
}
