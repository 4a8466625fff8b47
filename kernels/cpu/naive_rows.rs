//! What every kernel of one op says to the host, and its share of the rows.
#![allow(dead_code)]

use crate::abi::{ABI, Call, same, share};

/// What the rows of the op's output are.
pub const ROWS: &str = text_constant!("EW_OP0_ROWS", "tokens");

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1
}

/// Weights are read as stored.
#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(_weight: u32, _stored: *const u8, _packed: *mut u8) {}

/// Rows of the op's output in this call.
pub unsafe fn rows(call: &Call) -> usize {
    let step = unsafe { &*call.step };
    let rows = if same(ROWS, "selected") {
        step.selected
    } else if same(ROWS, "segments") {
        step.segments
    } else {
        step.rows
    };
    rows as usize
}

/// The rows that `thread` owns.
pub unsafe fn own_rows(call: &Call, thread: u32) -> core::ops::Range<usize> {
    let (first, last) = share(unsafe { rows(call) }, 1, thread as usize, call.threads as usize);
    first..last
}

/// Row `row` of a buffer of `width` values a row.
pub unsafe fn row<'a>(buffer: *const f32, row: usize, width: usize) -> &'a [f32] {
    unsafe { core::slice::from_raw_parts(buffer.add(row * width), width) }
}

/// Row `row` of a buffer of `width` values a row, to be written.
pub unsafe fn row_mut<'a>(buffer: *mut f32, row: usize, width: usize) -> &'a mut [f32] {
    unsafe { core::slice::from_raw_parts_mut(buffer.add(row * width), width) }
}
