//! The matrices of the group, all of one stored type: the layout `packed` of the kernel.
#![allow(dead_code)]

use crate::group::{INPUTS, LINEAR};
use crate::layout::Layout;
use crate::packed::Packed;
use crate::panels::Panel;
use crate::simd::Floats;
use crate::tile;

/// Sums of the activations of a block that products want: one for each scale.
pub const SUMS: usize = Packed::SCALES;
/// What a weight byte is when the weight is zero.
pub const ZERO: i32 = Packed::ZERO;

/// Bytes of a panel of the matrix of `linear` number `_linear`.
pub const fn panel_bytes(_linear: usize) -> usize {
    Panel::<Packed, INPUTS>::BYTES
}

/// Fills `packed` with the matrix of `linear` number `linear`.
pub unsafe fn pack(linear: usize, stored: *const u8, packed: *mut u8) {
    unsafe { Panel::<Packed, INPUTS>::pack(LINEAR[linear].outputs, stored, packed) }
}

/// Products of a panel of the matrix of `linear` number `_linear` with `ROWS` prepared rows that follow each other from `rows`.
#[inline(always)]
pub unsafe fn multiply<const ROWS: usize>(
    _linear: usize,
    panel: *const u8,
    rows: *const u8,
) -> [Floats; ROWS] {
    unsafe { tile::multiply::<Packed, ROWS>(panel, rows) }
}
