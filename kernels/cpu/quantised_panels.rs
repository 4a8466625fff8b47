//! Where things lie in a packed matrix: panels of 16 output rows, heads and bodies, packing of the whole matrix.
//!
//! If a head fills whole cache lines it stands in front of its bodies; otherwise all heads of a panel stand together in
//! front of all its bodies, so that weights are always aligned to cache lines.
#![allow(dead_code)]

use crate::layout::Layout;
use core::marker::PhantomData;

/// Output rows of a panel.
pub const PANEL_ROWS: usize = 16;

/// Panels of a matrix of `outputs` rows.
pub const fn panels(outputs: usize) -> usize {
    outputs.div_ceil(PANEL_ROWS)
}

/// Panels of rows of `INPUTS` inputs in layout `L`.
pub struct Panel<L, const INPUTS: usize>(PhantomData<L>);

impl<L: Layout, const INPUTS: usize> Panel<L, INPUTS> {
    /// Heads of a panel.
    pub const HEADS: usize = INPUTS / L::STORED_INPUTS;
    const HEAD_IS_INLINE: bool = L::HEAD_BYTES.is_multiple_of(64);
    const ALL_HEADS: usize = (L::HEAD_BYTES * Self::HEADS).next_multiple_of(64);
    const BODIES: usize = L::BODY_BYTES * L::BLOCKS;
    const HEAD_STEP: usize = if Self::HEAD_IS_INLINE { L::HEAD_BYTES + Self::BODIES } else { L::HEAD_BYTES };
    const BODIES_START: usize = if Self::HEAD_IS_INLINE { L::HEAD_BYTES } else { Self::ALL_HEADS };
    const BODIES_STEP: usize = if Self::HEAD_IS_INLINE { Self::HEAD_STEP } else { Self::BODIES };
    /// Bytes of a panel.
    pub const BYTES: usize = if Self::HEAD_IS_INLINE {
        Self::HEAD_STEP * Self::HEADS
    } else {
        Self::ALL_HEADS + Self::BODIES * Self::HEADS
    };

    /// Head `number` of the panel at `panel`.
    #[inline(always)]
    pub fn head(panel: *const u8, number: usize) -> *const u8 {
        panel.wrapping_add(number * Self::HEAD_STEP)
    }

    /// Body of block `block` of head `number` of the panel at `panel`.
    #[inline(always)]
    pub fn body(panel: *const u8, number: usize, block: usize) -> *const u8 {
        panel.wrapping_add(Self::BODIES_START + number * Self::BODIES_STEP + block * L::BODY_BYTES)
    }

    /// Bytes from the body of block `block` of a head to the next body.
    #[inline(always)]
    pub fn body_step(block: usize) -> usize {
        if Self::HEAD_IS_INLINE && block == L::BLOCKS - 1 {
            L::BODY_BYTES + L::HEAD_BYTES
        } else {
            L::BODY_BYTES
        }
    }

    /// Fills `packed` with the matrix of `outputs` rows at `stored`.
    pub unsafe fn pack(outputs: usize, stored: *const u8, packed: *mut u8) {
        const { assert!(INPUTS.is_multiple_of(L::STORED_INPUTS), "a row is whole stored blocks") }
        let row_bytes = Self::HEADS * L::STORED_BYTES;
        for number in 0..panels(outputs) {
            unsafe {
                let panel = packed.add(number * Self::BYTES);
                core::ptr::write_bytes(panel, 0, Self::BYTES);
                let first = number * PANEL_ROWS;
                let rows = PANEL_ROWS.min(outputs - first);
                for head in 0..Self::HEADS {
                    let from = stored.add(first * row_bytes + head * L::STORED_BYTES);
                    let bodies = Self::body(panel, head, 0).cast_mut();
                    L::pack(from, row_bytes, rows, Self::head(panel, head).cast_mut(), bodies);
                }
            }
        }
    }
}
