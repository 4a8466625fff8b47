//! What the products need to know of a packed layout of quantised matrices.
//!
//! A panel is 16 output rows side by side. Its inputs come in blocks of 32, each with the weights of 16 rows (a body); the
//! scales of as many blocks as one stored block has inputs for stand together (a head): one block for the plain types of
//! GGUF, eight for its K types. `quantised_panels.rs` says where heads and bodies lie.
#![allow(dead_code)]

use crate::simd::{Bytes, Lanes};

/// Inputs of a block: as many activations as share a scale.
pub const BLOCK: usize = 32;

/// A packed layout. All numbers are of 16 rows, unless they say stored.
pub trait Layout {
    /// Inputs of a stored block of one row; a multiple of [`BLOCK`].
    const STORED_INPUTS: usize;
    /// Bytes of a stored block of one row.
    const STORED_BYTES: usize;
    /// Blocks that share a head.
    const BLOCKS: usize = Self::STORED_INPUTS / BLOCK;
    /// Bytes of a head.
    const HEAD_BYTES: usize;
    /// Bytes of a body.
    const BODY_BYTES: usize;
    /// Largest weight byte.
    const MOST: u32;
    /// What a weight byte is when the weight is zero, before the minimum.
    const ZERO: i32 = 0;
    /// Scales that a row has in a block: 1, or 2 for its first and its second 16 inputs.
    const SCALES: usize = 1;
    /// Whether blocks have a minimum.
    const HAS_MINIMUM: bool = false;

    /// What all blocks of a head share, in registers.
    type Shared: Copy;

    /// Fills one head and its bodies, which hold zeros, from the stored blocks of up to 16 rows, `row_bytes` apart.
    unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, bodies: *mut u8);

    /// What the blocks of the head share, for part `part` of the rows.
    unsafe fn shared(head: *const u8, part: usize) -> Self::Shared;

    /// The weight bytes of part `part` of a body: entry i holds inputs 4i to 4i + 3.
    unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8];

    /// Scale `number` of block `block` of the head.
    unsafe fn scale(shared: Self::Shared, head: *const u8, block: usize, number: usize, part: usize)
    -> Lanes;

    /// What every weight of block `block` of the head is raised by; asked only of layouts that have minima.
    #[inline(always)]
    unsafe fn minimum(_shared: Self::Shared, _head: *const u8, _block: usize, _part: usize) -> Lanes {
        Lanes::splat(0.0)
    }
}
