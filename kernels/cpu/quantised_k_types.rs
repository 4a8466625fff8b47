//! The matrices of the group, each Q4_K or Q6_K by itself: llama.cpp's Q4_K_M stores the matrix of the values and that of
//! the way down as Q6_K in half of the layers, and as Q4_K in the others, so that one group may have both.
#![allow(dead_code)]

use crate::abi::same;
use crate::group::{INPUTS, LINEAR, LINEARS};
use crate::layout::Layout;
use crate::panels::Panel;
use crate::simd::Floats;
use crate::{q4_k, q6_k, tile};

const IS_Q6_K: [bool; 3] = [is_q6_k(0), is_q6_k(1), is_q6_k(2)];
/// Whether any matrix is of a type, so that a group of one type holds no code for the other.
const ANY_Q4_K: bool = !(IS_Q6_K[0] && (LINEARS < 2 || IS_Q6_K[1]) && (LINEARS < 3 || IS_Q6_K[2]));
const ANY_Q6_K: bool = IS_Q6_K[0] || (LINEARS > 1 && IS_Q6_K[1]) || (LINEARS > 2 && IS_Q6_K[2]);

const fn is_q6_k(linear: usize) -> bool {
    match LINEAR[linear].dtype {
        Some(dtype) if same(dtype, "q6_k") => true,
        Some(dtype) => {
            assert!(same(dtype, "q4_k"), "a matrix of this kernel is q4_k or q6_k");
            false
        }
        // The file compiled on its own.
        None => linear == 1,
    }
}

/// Sums of the activations of a block that products want: one for each scale, of the type that has most.
pub const SUMS: usize = if ANY_Q6_K { q6_k::Packed::SCALES } else { q4_k::Packed::SCALES };
/// What a weight byte is when the weight is zero, in the one type of the two where it is not zero.
pub const ZERO: i32 = q6_k::Packed::ZERO;
const _: () = assert!(q4_k::Packed::ZERO == 0, "products with Q4_K start at zero");

/// Bytes of a panel of the matrix of `linear` number `linear`.
pub const fn panel_bytes(linear: usize) -> usize {
    if IS_Q6_K[linear] { Panel::<q6_k::Packed, INPUTS>::BYTES } else { Panel::<q4_k::Packed, INPUTS>::BYTES }
}

/// Fills `packed` with the matrix of `linear` number `linear`.
pub unsafe fn pack(linear: usize, stored: *const u8, packed: *mut u8) {
    let outputs = LINEAR[linear].outputs;
    unsafe {
        if IS_Q6_K[linear] {
            Panel::<q6_k::Packed, INPUTS>::pack(outputs, stored, packed);
        } else {
            Panel::<q4_k::Packed, INPUTS>::pack(outputs, stored, packed);
        }
    }
}

/// Products of a panel of the matrix of `linear` number `linear` with `ROWS` prepared rows that follow each other from
/// `rows`.
#[inline(always)]
pub unsafe fn multiply<const ROWS: usize>(
    linear: usize,
    panel: *const u8,
    rows: *const u8,
) -> [Floats; ROWS] {
    let is_q6_k = ANY_Q6_K && (!ANY_Q4_K || IS_Q6_K[linear]);
    unsafe {
        if is_q6_k {
            tile::multiply::<q6_k::Packed, ROWS>(panel, rows)
        } else {
            tile::multiply::<q4_k::Packed, ROWS>(panel, rows)
        }
    }
}
