//! Rows of a Q8_0 token table out of the layout that the head of a tied model multiplies with. Family: embed.
//!
//!   x[r, k] = scale[token, k / 32] * w[token, k]
//!
//! Bound: memory, and little of it. Why it exists: read as stored, a tied table is there twice, packed for the head and
//! as pages of the file around every token that a prompt touches (23 MiB after 1,600 tokens of SmolLM2). Here both
//! use the one packed copy.
//!
//! ```toml
//! name = "embed_q8_0_packed"
//! pattern = "embed"
//! matrices = ["q8_0"]
//! layout = "q8_0.x16"
//! steps = ["prefill", "decode", "encode"]
//! requires = []
//! numerics = []
//! constraints = ["OP_WIDTH % 32 == 0", "OP_WEIGHTS == 1"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;

use abi::{ABI, Call, share};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 576);
const VOCABULARY: usize = constant!("EW_OP0_ENTRIES", 49152);
/// Output rows of a panel, inputs of a block: the layout of `layout_q8_0.rs` and `quantised_panels.rs`.
const PANEL_ROWS: usize = 16;
const BLOCK: usize = 32;
const BLOCKS: usize = WIDTH / BLOCK;
const STORED_BYTES: usize = 34;
const HEAD_BYTES: usize = 2 * PANEL_ROWS;
const BODY_BYTES: usize = PANEL_ROWS * BLOCK;
const ALL_HEADS: usize = (HEAD_BYTES * BLOCKS).next_multiple_of(64);
const PANEL_BYTES: usize = ALL_HEADS + BODY_BYTES * BLOCKS;

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, _threads: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    VOCABULARY.div_ceil(PANEL_ROWS) * PANEL_BYTES
}

/// Byte of weight `input` of a block for row `row` of its panel: lines of four inputs of all sixteen rows.
const fn place(row: usize, input: usize) -> usize {
    64 * (input / 4) + 4 * row + input % 4
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(weight: u32, stored: *const u8, packed: *mut u8) {
    unsafe {
        core::ptr::write_bytes(packed, 0, ew_packed_bytes(weight));
        for token in 0..VOCABULARY {
            let (panel, row) = (packed.add(token / PANEL_ROWS * PANEL_BYTES), token % PANEL_ROWS);
            for block in 0..BLOCKS {
                let from = stored.add((token * BLOCKS + block) * STORED_BYTES);
                let body = panel.add(ALL_HEADS + block * BODY_BYTES);
                core::ptr::copy_nonoverlapping(from, panel.add(block * HEAD_BYTES + 2 * row), 2);
                for input in 0..BLOCK {
                    *body.add(place(row, input)) = *from.add(2 + input) ^ 0x80;
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let step = &*call.step;
        let (first, last) = share(step.rows as usize, 1, thread as usize, call.threads as usize);
        for r in first..last {
            let token = *step.token_ids.add(r) as usize;
            let (panel, row) = (call.weights[0].add(token / PANEL_ROWS * PANEL_BYTES), token % PANEL_ROWS);
            let x = call.outputs[0].add(r * WIDTH);
            for block in 0..BLOCKS {
                let scale = half(*panel.add(block * HEAD_BYTES).cast::<u16>().add(row));
                let body = panel.add(ALL_HEADS + block * BODY_BYTES);
                for input in 0..BLOCK {
                    let byte = (*body.add(place(row, input)) ^ 0x80) as i8;
                    *x.add(block * BLOCK + input) = scale * f32::from(byte);
                }
            }
        }
    }
}

/// An IEEE 754 binary16 as float32.
fn half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, exponent, fraction) = ((bits & 0x8000) << 16, (bits >> 10) & 0x1f, bits & 0x3ff);
    match exponent {
        // Subnormal: fraction / 2^24.
        0 => f32::from_bits(sign | (fraction as f32 / 16_777_216.0).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}
