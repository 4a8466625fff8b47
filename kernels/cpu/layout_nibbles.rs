//! Nibbles of 16 output rows and 32 inputs in four lines of 64 bytes. Line g, lane r, byte j: low nibble = input 8g + j of
//! row r, high nibble = input 8g + 4 + j. So a line is two operands of `vpdpbusd` with one lane for each output row.

use crate::simd::{Bytes, PARTS, load_bytes};

/// Bytes of the lines.
pub const BYTES: usize = 256;

/// Low four bits of input `input` in the 16 bytes that GGUF stores for 32 inputs: low nibbles first, then high.
pub unsafe fn stored(nibbles: *const u8, input: usize) -> u8 {
    unsafe { (*nibbles.add(input % 16) >> (4 * (input / 16))) & 15 }
}

/// Fills the lanes of row `row` from the 16 stored bytes of its block.
pub unsafe fn pack(nibbles: *const u8, row: usize, lines: *mut u8) {
    for byte in 0..16 {
        let input = 8 * (byte / 4) + byte % 4;
        unsafe {
            let pair = stored(nibbles, input) | (stored(nibbles, input + 4) << 4);
            *lines.add(64 * (byte / 4) + 4 * row + byte % 4) = pair;
        }
    }
}

/// The nibbles of part `part` as bytes: entry i holds inputs 4i to 4i + 3.
#[inline(always)]
pub unsafe fn unpack(lines: *const u8, part: usize) -> [Bytes; 8] {
    let lines = lines.wrapping_add(part * (64 / PARTS));
    let line = [0, 64, 128, 192].map(|at| unsafe { load_bytes(lines.add(at)) });
    core::array::from_fn(|i| if i % 2 == 0 { line[i / 2].low_nibbles() } else { line[i / 2].high_nibbles() })
}
