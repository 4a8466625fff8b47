//! Layout `q8_0.x16`: sixteen output rows side by side, in the bytes of the stored format.
//!
//! Stored (GGUF): a row is blocks of 32 inputs: scale f16, 32 signed bytes; weight = scale * byte.
//!
//! Packed: a panel is 16 output rows (rows past the last have scale zero): first the scales of all its blocks, 16 a
//! block, up to a multiple of 64 bytes; then the weights, 512 bytes a block in lines of 64. Line g, lane r, byte j =
//! input 4g + j of row r, plus 128, so that `vpdpbusd` may take it as unsigned; the sum is started at -128 times the sum
//! of the activations, which is exact.
#![allow(dead_code)]

use crate::layout::Layout;
use crate::simd::{Bytes, Lanes, PARTS, load_bytes};

/// The layout.
pub struct Packed;

impl Layout for Packed {
    const STORED_INPUTS: usize = 32;
    const STORED_BYTES: usize = 34;
    const HEAD_BYTES: usize = 32;
    const BODY_BYTES: usize = 512;
    const MOST: u32 = 255;
    const ZERO: i32 = 128;

    type Shared = ();

    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, body: *mut u8) {
        for row in 0..rows {
            unsafe {
                let block = stored.add(row * row_bytes);
                core::ptr::copy_nonoverlapping(block, head.add(2 * row), 2);
                for input in 0..32 {
                    *body.add(64 * (input / 4) + 4 * row + input % 4) = *block.add(2 + input) ^ 0x80;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn shared(_head: *const u8, _part: usize) {}

    #[inline(always)]
    unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
        let body = body.wrapping_add(part * (64 / PARTS));
        unsafe { [0, 64, 128, 192, 256, 320, 384, 448].map(|at| load_bytes(body.add(at))) }
    }

    #[inline(always)]
    unsafe fn scale(_shared: (), head: *const u8, _block: usize, _number: usize, part: usize) -> Lanes {
        unsafe { Lanes::load_half(head.add(part * (32 / PARTS))) }
    }
}
