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
        for (row, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in sums.iter_mut().enumerate() {
                let (place, count) = tile.place(row, vector);
                *sum = unsafe { Lanes::load_first(out.wrapping_add(place), count) };
            }
        }
    }
}

/// Stores the sums as they are, to be resumed.
#[inline(always)]
pub unsafe fn suspend<const ROWS: usize>(tile: &Tile, out: *mut f32, sums: &Sums<ROWS>) {
    for (row, sums) in sums.iter().enumerate() {
        for (vector, sum) in sums.iter().enumerate() {
            let (place, count) = tile.place(row, vector);
            unsafe { sum.store_first(out.wrapping_add(place), count) }
        }
    }
}

impl Tile {
    /// Where a vector of a row lies in the output, and how many of its lanes are outputs.
    #[inline(always)]
    fn place(&self, row: usize, vector: usize) -> (usize, usize) {
        let width = LINEAR[self.linear].outputs;
        let output = self.output + vector * WIDTH;
        ((self.row + row) * width + output, WIDTH.min(width.saturating_sub(output)))
    }
}

/// Adds the bias, finishes and stores; `sums` holds those of the second matrix too if the group pairs two.
///
/// The sums go through memory: a loop over them that the compiler does not unroll would keep them out of registers
/// everywhere, and the multiplication with them.
#[inline(always)]
pub unsafe fn finish<const ROWS: usize>(call: &Call, tile: &Tile, sums: &[Sums<ROWS>; PAIRED]) {
    let mut products = [[[[0.0; WIDTH]; PAIRED]; VECTORS]; ROWS];
    for (matrix, sums) in sums.iter().enumerate() {
        for (row, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                unsafe { sum.store(products[row][vector][matrix].as_mut_ptr()) }
            }
        }
    }
    for (row, products) in products.iter().enumerate() {
        for (vector, products) in products.iter().enumerate() {
            let (place, count) = tile.place(row, vector);
            if count > 0 {
                let output = tile.output + vector * WIDTH;
                unsafe {
                    let first =
                        Lanes::load(products[0].as_ptr()).plus(bias(call, tile.linear, output, count));
                    let result = match FINISH {
                        Finish::Store => first,
                        Finish::GeluErf => gelu_erf(first),
                        Finish::GeluTanh => gelu_tanh(first),
                        Finish::Add => first.plus(Lanes::load_first(call.inputs[1].add(place), count)),
                        Finish::SiluMul => {
                            let second = Lanes::load(products[PAIRED - 1].as_ptr());
                            silu(first).times(second.plus(bias(call, 1, output, count)))
                        }
                    };
                    result.store_first(call.outputs[tile.linear].add(place), count);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn bias(call: &Call, linear: usize, output: usize, count: usize) -> Lanes {
    let weight = LINEAR[linear].bias;
    if weight == ABSENT {
        return Lanes::splat(0.0);
    }
    unsafe { Lanes::load_first(call.weights[weight].cast::<f32>().add(output), count) }
}
