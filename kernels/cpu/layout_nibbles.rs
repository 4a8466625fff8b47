//! Nibbles of 16 output rows and 32 inputs in four lines of 64 bytes. Line g, lane r, byte j: low nibble = input 8g + j of
//! row r, high nibble = input 8g + 4 + j. So a line is two operands of `vpdpbusd` with one lane for each output row.
#![allow(dead_code)]

use crate::simd::{Bytes, PARTS, load_bytes};

/// Bytes of the lines.
pub const BYTES: usize = 256;

/// Low four bits of input `input` in the 16 bytes that GGUF stores for 32 inputs: low nibbles first, then high.
pub unsafe fn stored(nibbles: *const u8, input: usize) -> u8 {
    unsafe { (*nibbles.add(input % 16) >> (4 * (input / 16))) & 15 }
}

/// Fills the lanes of row `row`, which hold zeros, from the 16 stored bytes of its block.
pub unsafe fn pack(nibbles: *const u8, row: usize, lines: *mut u8) {
    for input in 0..32 {
        unsafe { put(lines, row, input, stored(nibbles, input)) }
    }
}

/// Byte of input `input` of row `row`, and how far its nibble is shifted.
const fn place(row: usize, input: usize) -> (usize, usize) {
    (64 * (input / 8) + 4 * row + input % 4, input / 4 % 2 * 4)
}

/// Writes one nibble, which holds zero.
pub unsafe fn put(lines: *mut u8, row: usize, input: usize, nibble: u8) {
    let (at, shift) = place(row, input);
    unsafe { *lines.add(at) |= nibble << shift }
}

/// Reads one nibble.
pub unsafe fn get(lines: *const u8, row: usize, input: usize) -> u8 {
    let (at, shift) = place(row, input);
    unsafe { *lines.add(at) >> shift & 15 }
}

/// The nibbles of part `part` as bytes: entry i holds inputs 4i to 4i + 3.
#[inline(always)]
pub unsafe fn unpack(lines: *const u8, part: usize) -> [Bytes; 8] {
    let lines = lines.wrapping_add(part * (64 / PARTS));
    let line = [0, 64, 128, 192].map(|at| unsafe { load_bytes(lines.add(at)) });
    core::array::from_fn(|i| if i % 2 == 0 { line[i / 2].low_nibbles() } else { line[i / 2].high_nibbles() })
}
