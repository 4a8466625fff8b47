//! Layout `q4_0.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 32 inputs: scale f16, 16 bytes of nibbles; weight = scale * (nibble - 8).
//!
//! Packed: a panel is 16 output rows (rows past the last have scale zero): first the scales of all its blocks, 16 a
//! block, up to a multiple of 64 bytes; then the nibbles as `layout_nibbles.rs` has them, 256 bytes a block.
#![allow(dead_code)]

use crate::layout::Layout;
use crate::nibbles;
use crate::simd::{Bytes, Lanes, PARTS};

/// The layout.
pub struct Packed;

impl Layout for Packed {
    const STORED_INPUTS: usize = 32;
    const STORED_BYTES: usize = 18;
    const HEAD_BYTES: usize = 32;
    const BODY_BYTES: usize = nibbles::BYTES;
    const MOST: u32 = 15;
    const ZERO: i32 = 8;

    type Shared = ();

    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, body: *mut u8) {
        for row in 0..rows {
            unsafe {
                let block = stored.add(row * row_bytes);
                core::ptr::copy_nonoverlapping(block, head.add(2 * row), 2);
                nibbles::pack(block.add(2), row, body);
            }
        }
    }

    #[inline(always)]
    unsafe fn shared(_head: *const u8, _part: usize) {}

    #[inline(always)]
    unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
        unsafe { nibbles::unpack(body, part) }
    }

    #[inline(always)]
    unsafe fn scale(_shared: (), head: *const u8, _block: usize, _number: usize, part: usize) -> Lanes {
        unsafe { Lanes::load_half(head.add(part * (32 / PARTS))) }
    }
}
