//! What the host calls for a float `linear` group: phases, scratch, packing, and one thread's share of the work.
//!
//! Phase 0 prepares the rows (a norm or a selection in front), phase 1 multiplies, phase 2 normalises whole rows.
//! Few rows: each thread prepares all of them for itself and takes a share of the columns. Many rows: each thread takes
//! a share of the rows, reads all weights, and normalises its own rows while they are near.

use crate::abi::{ABI, Call, share};
use crate::linear_group::{
    FINISH, Finish, HAS_LAYER_NORM, HAS_PREPARING, HAS_RMS_NORM, INPUTS, IS_SELECTED, LAYER_NORM_EPSILON,
    LAYER_NORM_WEIGHT, LINEAR, LINEARS, MOST_ROWS, PAIRED, RMS_NORM_EPSILON, RMS_NORM_WEIGHT, SELECTS,
};
use crate::linear_tile::{Sums, TILE_COLUMNS, Tile, VECTORS, finish, multiply, resume, suspend};
use crate::norms::{layer_norm, rms_norm};
use crate::panels::{PANEL_ROWS, pack, panel_bytes, panels};
use crate::vector::{Lanes, WIDTH};

/// Rows of a tile.
const TILE: usize = constant!("EW_PARAM_TILE", if WIDTH == 16 { 8 } else { 6 });
/// Rows whose activations should stay in the second-level cache.
const ROW_BLOCK: usize = constant!("EW_PARAM_ROW_BLOCK", 192);
/// Inputs after which sums rest in the output, so that a block of weights stays in the first-level cache.
const INPUT_BLOCK: usize = constant!("EW_PARAM_INPUT_BLOCK", 384);
/// Rows for each thread from which threads share out rows and not columns.
const APART: usize = constant!("EW_PARAM_APART", 96);
/// Steps of more rows than this share out the preparing.
const SHARE_ABOVE: usize = constant!("EW_PARAM_SHARE_ABOVE", 8);

const _: () = assert!(TILE_COLUMNS.is_multiple_of(PANEL_ROWS), "a tile is whole panels");
const PREPARING_IS_SHARED: bool = HAS_PREPARING && MOST_ROWS > SHARE_ABOVE;
const TILES: [usize; 3] = [tiles(0), tiles(1), tiles(2)];
const ALL_TILES: usize = TILES[0] + TILES[1] + TILES[2];
/// A product of two has no place for the sums of the second to rest.
const BLOCK: usize = if PAIRED == 2 || INPUT_BLOCK == 0 { INPUTS } else { INPUT_BLOCK };

/// Column tiles of a `linear`; the second of a pair has none of its own.
const fn tiles(linear: usize) -> usize {
    if linear > 0 && PAIRED == 2 { 0 } else { LINEAR[linear].outputs.div_ceil(TILE_COLUMNS) }
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1 + PREPARING_IS_SHARED as u32 + HAS_LAYER_NORM as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(rows: u32, threads: u32) -> usize {
    if !HAS_PREPARING {
        return 0;
    }
    let copies = if PREPARING_IS_SHARED { 1 } else { threads as usize };
    copies * copy_bytes(rows as usize)
}

/// Bytes of one copy of the prepared rows.
const fn copy_bytes(rows: usize) -> usize {
    (rows * INPUTS * 4).next_multiple_of(64)
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(weight: u32) -> usize {
    matrix(weight).map_or(0, |number| panels(&LINEAR[number]) * panel_bytes(&LINEAR[number]))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(weight: u32, stored: *const u8, packed: *mut u8) {
    if let Some(number) = matrix(weight) {
        unsafe { pack(&LINEAR[number], stored, packed) }
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
        let rows = if IS_SELECTED { (*call.step).selected } else { (*call.step).rows } as usize;
        let mut x = call.inputs[0];
        if HAS_PREPARING {
            let copy = if PREPARING_IS_SHARED { 0 } else { thread * copy_bytes(rows) };
            let prepared = call.scratch.add(copy).cast::<f32>();
            if phase == 0 {
                let (first, last) =
                    if PREPARING_IS_SHARED { share(rows, 1, thread, threads) } else { (0, rows) };
                for row in first..last {
                    prepare(call, row, prepared.add(row * INPUTS));
                }
                if PREPARING_IS_SHARED {
                    return;
                }
            }
            x = prepared;
        }
        let rows_are_shared = rows >= APART * threads;
        let (first_row, last_row) =
            if rows_are_shared { share(rows, TILE, thread, threads) } else { (0, rows) };
        if phase == PREPARING_IS_SHARED as u32 {
            let (first, last) =
                if rows_are_shared { (0, ALL_TILES) } else { share(ALL_TILES, 1, thread, threads) };
            let mut row = first_row;
            while row < last_row {
                let end = last_row.min(row + ROW_BLOCK);
                multiply_tiles(call, x, (row, end), (first, last));
                if HAS_LAYER_NORM && rows_are_shared {
                    normalise(call, row, end);
                }
                row = end;
            }
        } else if !rows_are_shared {
            let (first, last) = share(rows, 1, thread, threads);
            normalise(call, first, last);
        }
    }
}

unsafe fn prepare(call: &Call, row: usize, out: *mut f32) {
    unsafe {
        let from = if SELECTS { *(*call.step).selected_rows.add(row) as usize } else { row };
        let x = call.inputs[0].add(from * INPUTS);
        if HAS_RMS_NORM {
            rms_norm::<INPUTS>(x, call.weights[RMS_NORM_WEIGHT].cast(), RMS_NORM_EPSILON, out);
        } else {
            core::ptr::copy_nonoverlapping(x, out, INPUTS);
        }
    }
}

/// Normalises finished rows where they lie.
unsafe fn normalise(call: &Call, first: usize, last: usize) {
    const WIDTH: usize = LINEAR[0].outputs;
    for row in first..last {
        unsafe {
            let at = call.outputs[0].add(row * WIDTH);
            let (weight, offset) = (call.weights[LAYER_NORM_WEIGHT], call.weights[LAYER_NORM_WEIGHT + 1]);
            layer_norm::<WIDTH>(at, weight.cast(), offset.cast(), LAYER_NORM_EPSILON, at);
        }
    }
}

/// Multiplies a range of rows with a range of column tiles.
unsafe fn multiply_tiles(call: &Call, x: *const f32, rows: (usize, usize), tiles: (usize, usize)) {
    let row_tiles = (rows.1 - rows.0).div_ceil(TILE);
    for number in tiles.0..tiles.1 {
        let (linear, column_tile) = if number < TILES[0] {
            (0, number)
        } else if number < TILES[0] + TILES[1] {
            (1, number - TILES[0])
        } else {
            (2, number - TILES[0] - TILES[1])
        };
        let mut first_input = 0;
        while first_input < INPUTS {
            // A short rest joins the last block.
            let last_input = if INPUTS - first_input < 2 * BLOCK { INPUTS } else { first_input + BLOCK };
            for row_tile in 0..row_tiles {
                let (row, end) = share(rows.1 - rows.0, 1, row_tile, row_tiles);
                let row = rows.0 + row;
                let tile = Tile { linear, output: column_tile * TILE_COLUMNS, row, first_input, last_input };
                unsafe { multiply_rows(call, x, &tile, rows.0 + end - row) }
            }
            first_input = last_input;
        }
    }
}

/// Picks the tile of `count` rows.
#[inline(always)]
unsafe fn multiply_rows(call: &Call, x: *const f32, tile: &Tile, count: usize) {
    macro_rules! pick {
        ($($rows:literal)*) => {
            match count {
                $($rows if $rows <= TILE => unsafe { multiply_tile::<$rows>(call, x, tile) },)*
                _ => {}
            }
        };
    }
    pick!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
}

const _: () = assert!(TILE >= 1 && TILE <= 14, "tiles have 1 to 14 rows");

#[inline(always)]
unsafe fn multiply_tile<const ROWS: usize>(call: &Call, x: *const f32, tile: &Tile) {
    unsafe {
        let x = x.add(tile.row * INPUTS);
        let mut sums: [Sums<ROWS>; PAIRED] = [[[Lanes::splat(0.0); VECTORS]; ROWS]; PAIRED];
        resume(tile, call.outputs[tile.linear], &mut sums[0]);
        multiply(tile, call.weights[LINEAR[tile.linear].matrix], x, &mut sums[0]);
        if matches!(FINISH, Finish::SiluMul) {
            multiply(&Tile { linear: 1, ..*tile }, call.weights[LINEAR[1].matrix], x, &mut sums[PAIRED - 1]);
        }
        if tile.last_input == INPUTS {
            finish(call, tile, &sums);
        } else {
            suspend(tile, call.outputs[tile.linear], &sums[0]);
        }
    }
}
