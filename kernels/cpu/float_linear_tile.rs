//! The register tile of the float `linear` kernels: some rows by some vectors of outputs.

use crate::abi::Call;
use crate::constants::ABSENT;
use crate::curves::{gelu_erf, gelu_tanh, silu};
use crate::linear_group::{ELEMENT_BYTES, FINISH, Finish, INPUTS, LINEAR, PAIRED};
use crate::panels::{PANEL_ROWS, panel_bytes, panels, weights};
use crate::vector::{Lanes, WIDTH, prefetch};

/// Vectors of outputs of a tile.
pub const VECTORS: usize = constant!("EW_PARAM_VECTORS", if WIDTH == 16 { 3 } else { 2 });
/// Outputs of a tile.
pub const TILE_COLUMNS: usize = VECTORS * WIDTH;
/// Inputs between two looks at the loop condition.
const UNROLL: usize = constant!("EW_PARAM_UNROLL", 4);
/// Inputs that weights are asked for ahead of their use; 0 leaves it to the processor.
const PREFETCH: usize = constant!("EW_PARAM_PREFETCH", 0);

/// Sums of a tile.
pub type Sums<const ROWS: usize> = [[Lanes; VECTORS]; ROWS];

/// A tile of the outputs of one `linear`, and a range of its inputs.
#[derive(Clone, Copy)]
pub struct Tile {
    /// Which `linear`.
    pub linear: usize,
    /// First output.
    pub output: usize,
    /// First row.
    pub row: usize,
    /// Range of inputs.
    pub first_input: usize,
    pub last_input: usize,
}

/// Adds the products of `ROWS` rows of `x` (`[rows, INPUTS]`, from the tile's first row) to `sums`.
#[inline(always)]
pub unsafe fn multiply<const ROWS: usize>(
    tile: &Tile,
    matrix: *const u8,
    x: *const f32,
    sums: &mut Sums<ROWS>,
) {
    unsafe {
        let linear = &LINEAR[tile.linear];
        let last_panel = panels(linear) - 1;
        let mut columns = [core::ptr::null(); VECTORS];
        for (vector, column) in columns.iter_mut().enumerate() {
            // Vectors past the matrix repeat its last panel and are not stored.
            let lane = tile.output + vector * WIDTH;
            let panel = (lane / PANEL_ROWS).min(last_panel);
            *column = matrix.add(panel * panel_bytes(linear) + lane % PANEL_ROWS * ELEMENT_BYTES);
        }
        let mut input = tile.first_input;
        while input + UNROLL <= tile.last_input {
            for i in 0..UNROLL {
                step(&columns, input + i, x, sums);
            }
            input += UNROLL;
        }
        while input < tile.last_input {
            step(&columns, input, x, sums);
            input += 1;
        }
    }
}

#[inline(always)]
unsafe fn step<const ROWS: usize>(
    columns: &[*const u8; VECTORS],
    input: usize,
    x: *const f32,
    sums: &mut Sums<ROWS>,
) {
    unsafe {
        let mut factors = [Lanes::splat(0.0); VECTORS];
        for (factor, column) in factors.iter_mut().zip(columns) {
            let at = column.add(input * PANEL_ROWS * ELEMENT_BYTES);
            *factor = weights(at);
            if PREFETCH != 0 {
                prefetch(at.wrapping_add(PREFETCH * PANEL_ROWS * ELEMENT_BYTES));
            }
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            let activation = Lanes::splat(*x.add(row * INPUTS + input));
            for (sum, factor) in sums.iter_mut().zip(&factors) {
                *sum = activation.times_plus(*factor, *sum);
            }
        }
    }
}

/// Loads the sums of earlier inputs from the output, or zeros for the first.
#[inline(always)]
pub unsafe fn resume<const ROWS: usize>(tile: &Tile, out: *const f32, sums: &mut Sums<ROWS>) {
    if tile.first_input > 0 {
        let width = LINEAR[tile.linear].outputs;
        each_vector(tile, |vector, output, count| {
            for (row, sums) in sums.iter_mut().enumerate() {
                sums[vector] =
                    unsafe { Lanes::load_first(out.add((tile.row + row) * width + output), count) };
            }
        });
    }
}

/// Stores the sums as they are, to be resumed.
#[inline(always)]
pub unsafe fn suspend<const ROWS: usize>(tile: &Tile, out: *mut f32, sums: &Sums<ROWS>) {
    let width = LINEAR[tile.linear].outputs;
    each_vector(tile, |vector, output, count| {
        for (row, sums) in sums.iter().enumerate() {
            unsafe { sums[vector].store_first(out.add((tile.row + row) * width + output), count) }
        }
    });
}

/// Adds the bias, finishes and stores; `sums` holds those of the second matrix too if the group pairs two.
#[inline(always)]
pub unsafe fn finish<const ROWS: usize>(call: &Call, tile: &Tile, sums: &[Sums<ROWS>; PAIRED]) {
    let width = LINEAR[tile.linear].outputs;
    each_vector(tile, |vector, output, count| unsafe {
        let bias = bias(call, tile.linear, output, count);
        let second_bias = bias_of_second(call, output, count);
        for (row, first) in sums[0].iter().enumerate() {
            let place = (tile.row + row) * width + output;
            let product = first[vector].plus(bias);
            let result = match FINISH {
                Finish::Store => product,
                Finish::GeluErf => gelu_erf(product),
                Finish::GeluTanh => gelu_tanh(product),
                Finish::Add => product.plus(Lanes::load_first(call.inputs[1].add(place), count)),
                Finish::SiluMul => silu(product).times(sums[PAIRED - 1][row][vector].plus(second_bias)),
            };
            result.store_first(call.outputs[tile.linear].add(place), count);
        }
    });
}

#[inline(always)]
unsafe fn bias_of_second(call: &Call, output: usize, count: usize) -> Lanes {
    if PAIRED == 2 { unsafe { bias(call, 1, output, count) } } else { Lanes::splat(0.0) }
}

#[inline(always)]
unsafe fn bias(call: &Call, linear: usize, output: usize, count: usize) -> Lanes {
    let weight = LINEAR[linear].bias;
    if weight == ABSENT {
        return Lanes::splat(0.0);
    }
    unsafe { Lanes::load_first(call.weights[weight].cast::<f32>().add(output), count) }
}

/// Calls `each` with the vectors of the tile that have outputs: number, first output, lanes.
#[inline(always)]
fn each_vector(tile: &Tile, mut each: impl FnMut(usize, usize, usize)) {
    let width = LINEAR[tile.linear].outputs;
    for vector in 0..VECTORS {
        let output = tile.output + vector * WIDTH;
        if output < width {
            each(vector, output, WIDTH.min(width - output));
        }
    }
}
