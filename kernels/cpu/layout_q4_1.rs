//! Layout `q4_1.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 32 inputs: scale f16, minimum f16, 16 bytes; the low nibble of byte j is input j,
//! the high nibble input 16 + j; weight = scale * nibble + minimum.
//!
//! Packed: a panel is 16 output rows (rows past the last are zero); its blocks follow each other, 320 bytes each:
//! 16 scales, 16 minima, then the nibbles as `layout_nibbles.rs` has them.
#![allow(dead_code)]

use crate::layout::Layout;
use crate::nibbles;
use crate::simd::{Bytes, Lanes, PARTS};

/// The layout.
pub struct Packed;

impl Layout for Packed {
    const STORED_INPUTS: usize = 32;
    const STORED_BYTES: usize = 20;
    const HEAD_BYTES: usize = 64;
    const BODY_BYTES: usize = nibbles::BYTES;
    const MOST: u32 = 15;
    const HAS_MINIMUM: bool = true;

    type Shared = ();

    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, body: *mut u8) {
        for row in 0..rows {
            unsafe {
                let block = stored.add(row * row_bytes);
                core::ptr::copy_nonoverlapping(block, head.add(2 * row), 2);
                core::ptr::copy_nonoverlapping(block.add(2), head.add(32 + 2 * row), 2);
                nibbles::pack(block.add(4), row, body);
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

    #[inline(always)]
    unsafe fn minimum(_shared: (), head: *const u8, _block: usize, part: usize) -> Lanes {
        unsafe { Lanes::load_half(head.add(32 + part * (32 / PARTS))) }
    }
}
