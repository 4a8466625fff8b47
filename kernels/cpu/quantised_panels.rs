//! Where things lie in a packed matrix: panels of 16 output rows, blocks of 32 inputs, packing of the whole matrix.
//!
//! If the scales of a block fill whole cache lines they stand in front of its weights; otherwise the scales of a panel
//! stand together in front of all its weights, so that weights are always aligned to cache lines.
#![allow(dead_code)]

use crate::group::{INPUTS, Linear};
use crate::layout;

/// Output rows of a panel.
pub const PANEL_ROWS: usize = 16;
/// Inputs of a block.
pub const BLOCK: usize = 32;
/// Blocks of a row.
pub const BLOCKS: usize = INPUTS / BLOCK;

const HEAD_IS_INLINE: bool = layout::HEAD_BYTES.is_multiple_of(64);
const ALL_HEADS: usize = (layout::HEAD_BYTES * BLOCKS).next_multiple_of(64);
const HEAD_STEP: usize =
    if HEAD_IS_INLINE { layout::HEAD_BYTES + layout::BODY_BYTES } else { layout::HEAD_BYTES };
/// Bytes between the weights of a block and of the next.
pub const BODY_STEP: usize = if HEAD_IS_INLINE { HEAD_STEP } else { layout::BODY_BYTES };
const BODY_START: usize = if HEAD_IS_INLINE { layout::HEAD_BYTES } else { ALL_HEADS };
/// Bytes of a panel.
pub const PANEL_BYTES: usize =
    if HEAD_IS_INLINE { HEAD_STEP * BLOCKS } else { ALL_HEADS + layout::BODY_BYTES * BLOCKS };

/// Scales of block `block` of the panel at `panel`.
#[inline(always)]
pub fn head(panel: *const u8, block: usize) -> *const u8 {
    panel.wrapping_add(block * HEAD_STEP)
}

/// Weights of block `block` of the panel at `panel`.
#[inline(always)]
pub fn body(panel: *const u8, block: usize) -> *const u8 {
    panel.wrapping_add(BODY_START + block * BODY_STEP)
}

/// Panels of a matrix.
pub const fn panels(linear: &Linear) -> usize {
    linear.outputs.div_ceil(PANEL_ROWS)
}

/// Fills `packed` with the matrix of `linear`.
pub unsafe fn pack(linear: &Linear, stored: *const u8, packed: *mut u8) {
    let row_bytes = BLOCKS * layout::STORED_BYTES;
    for number in 0..panels(linear) {
        unsafe {
            let panel = packed.add(number * PANEL_BYTES);
            core::ptr::write_bytes(panel, 0, PANEL_BYTES);
            let first = number * PANEL_ROWS;
            let rows = PANEL_ROWS.min(linear.outputs - first);
            for block in 0..BLOCKS {
                let from = stored.add(first * row_bytes + block * layout::STORED_BYTES);
                let (head, body) = (head(panel, block).cast_mut(), body(panel, block).cast_mut());
                layout::pack_block(from, row_bytes, rows, head, body);
            }
        }
    }
}
