//! What the host calls: phases, scratch, packing, and one thread's share of the work.
//!
//! Few rows: every thread prepares all rows for itself (no barrier), then multiplies its units. Many rows: a phase in
//! which each thread prepares its share of the rows, and one in which each multiplies its units with all rows.

use crate::abi::{ABI, Call, Step, same, share};
use crate::finish::{Place, TURN_BYTES, UNIT_PANELS, fill_turns, finish};
use crate::group::{FINISH, Finish, INPUTS, LINEAR, LINEARS, MOST_ROWS, NORM_WEIGHT, ROWS, SELECTS};
use crate::matrices::{multiply, pack, panel_bytes};
use crate::panels::{PANEL_ROWS, panels};
use crate::rows::{ROW_BYTES, prepare};
use crate::simd::Floats;
use core::sync::atomic::Ordering;

/// Steps of more rows than this share out the preparing.
const SHARE_ABOVE: usize = constant!("EW_PARAM_SHARE_ABOVE", 8);
/// Rows that a block of weights is unpacked for.
const TILE: usize = constant!("EW_PARAM_TILE", 8);
/// Rows whose activations should stay in the second-level cache.
const ROW_BLOCK: usize = constant!("EW_PARAM_ROW_BLOCK", 256);
/// Units of a ticket; 0 divides the units evenly beforehand.
const TICKET_UNITS: usize = constant!("EW_PARAM_TICKET_UNITS", 0);

const PREPARING_IS_SHARED: bool = MOST_ROWS > SHARE_ABOVE;
const UNITS: [usize; 3] = [units(0), units(1), units(2)];
const PANEL_BYTES: [usize; 3] = [panel_bytes(0), panel_bytes(1), panel_bytes(2)];
const ALL_UNITS: usize = UNITS[0] + UNITS[1] + UNITS[2];

/// Units of a `linear`; the second of a product of two has none of its own.
const fn units(linear: usize) -> usize {
    if linear >= LINEARS || (matches!(FINISH, Finish::SiluMul) && linear > 0) {
        return 0;
    }
    panels(LINEAR[linear].outputs).div_ceil(UNIT_PANELS)
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    if PREPARING_IS_SHARED { 2 } else { 1 }
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(rows: u32, threads: u32) -> usize {
    let copies = if PREPARING_IS_SHARED { 1 } else { threads as usize };
    copies * rows as usize * (ROW_BYTES + TURN_BYTES)
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(weight: u32) -> usize {
    match matrix(weight) {
        Some(number) => panels(LINEAR[number].outputs) * PANEL_BYTES[number],
        None => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(weight: u32, stored: *const u8, packed: *mut u8) {
    if let Some(number) = matrix(weight) {
        unsafe { pack(number, stored, packed) }
    }
}

fn matrix(weight: u32) -> Option<usize> {
    LINEAR[..LINEARS].iter().position(|linear| linear.matrix == weight as usize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let (thread, threads) = (thread as usize, call.threads as usize);
        let rows = rows_of(&*call.step);
        let copy = if PREPARING_IS_SHARED { 0 } else { thread * rows * (ROW_BYTES + TURN_BYTES) };
        let prepared = Prepared { rows, at: call.scratch.add(copy) };
        if phase == 0 {
            let (first, last) = if PREPARING_IS_SHARED { share(rows, 1, thread, threads) } else { (0, rows) };
            for row in first..last {
                prepared.fill(call, row);
            }
        }
        if phase == 1 || !PREPARING_IS_SHARED {
            if TICKET_UNITS == 0 {
                let (first, last) = share(ALL_UNITS, 1, thread, threads);
                multiply_units(call, &prepared, first, last);
            } else {
                loop {
                    let first = (*call.ticket).fetch_add(1, Ordering::Relaxed) as usize * TICKET_UNITS;
                    if first >= ALL_UNITS {
                        break;
                    }
                    multiply_units(call, &prepared, first, ALL_UNITS.min(first + TICKET_UNITS));
                }
            }
        }
    }
}

/// Rows of the products in this step.
fn rows_of(step: &Step) -> usize {
    let rows = if same(ROWS, "selected") {
        step.selected
    } else if same(ROWS, "segments") {
        step.segments
    } else {
        step.rows
    };
    rows as usize
}

/// Prepared rows in the scratch: all rows, then all turns.
struct Prepared {
    rows: usize,
    at: *mut u8,
}

impl Prepared {
    fn row(&self, row: usize) -> *mut u8 {
        self.at.wrapping_add(row * ROW_BYTES)
    }

    fn turns(&self, row: usize) -> *mut f32 {
        self.at.wrapping_add(self.rows * ROW_BYTES + row * TURN_BYTES).cast()
    }

    unsafe fn fill(&self, call: &Call, row: usize) {
        unsafe {
            let from = if SELECTS { *(*call.step).selected_rows.add(row) as usize } else { row };
            let norm = call.weights.get(NORM_WEIGHT).map_or(core::ptr::null(), |weight| weight.cast());
            prepare(call.inputs[0].add(from * INPUTS), norm, self.row(row));
            if matches!(FINISH, Finish::RopeCache) {
                fill_turns(call, *(*call.step).positions.add(row), self.turns(row));
            }
        }
    }
}

unsafe fn multiply_units(call: &Call, prepared: &Prepared, first: usize, last: usize) {
    for start in (0..prepared.rows).step_by(ROW_BLOCK) {
        let end = prepared.rows.min(start + ROW_BLOCK);
        for unit in first..last {
            let mut row = start;
            while row < end {
                let left = end - row;
                unsafe {
                    row += match left {
                        _ if left >= TILE => multiply_tile::<TILE>(call, prepared, unit, row),
                        _ if left >= 8 && TILE > 8 => multiply_tile::<8>(call, prepared, unit, row),
                        _ if left >= 4 && TILE > 4 => multiply_tile::<4>(call, prepared, unit, row),
                        _ if left >= 2 && TILE > 2 => multiply_tile::<2>(call, prepared, unit, row),
                        _ => multiply_tile::<1>(call, prepared, unit, row),
                    };
                }
            }
        }
    }
}

/// Computes and finishes one unit for `ROWS` rows from `row`; returns `ROWS`.
#[inline(always)]
unsafe fn multiply_tile<const ROWS: usize>(
    call: &Call,
    prepared: &Prepared,
    unit: usize,
    row: usize,
) -> usize {
    let (linear, unit) = if unit < UNITS[0] {
        (0, unit)
    } else if unit < UNITS[0] + UNITS[1] {
        (1, unit - UNITS[0])
    } else {
        (2, unit - UNITS[0] - UNITS[1])
    };
    let rows = prepared.row(row).cast_const();
    let mut products = [[Floats::splat(0.0); UNIT_PANELS]; ROWS];
    let mut second = [[Floats::splat(0.0); UNIT_PANELS]; ROWS];
    unsafe {
        for part in 0..UNIT_PANELS {
            let panel = unit * UNIT_PANELS + part;
            let at = call.weights[LINEAR[linear].matrix].add(panel * PANEL_BYTES[linear]);
            let sums = multiply::<ROWS>(linear, at, rows);
            (0..ROWS).for_each(|i| products[i][part] = sums[i]);
            if matches!(FINISH, Finish::SiluMul) {
                let at = call.weights[LINEAR[1].matrix].add(panel * PANEL_BYTES[1]);
                let sums = multiply::<ROWS>(1, at, rows);
                (0..ROWS).for_each(|i| second[i][part] = sums[i]);
            }
        }
        for i in 0..ROWS {
            let output = unit * UNIT_PANELS * PANEL_ROWS;
            let place = Place { linear, output, row: row + i, turns: prepared.turns(row + i) };
            finish(call, place, products[i], second[i]);
        }
    }
    ROWS
}
