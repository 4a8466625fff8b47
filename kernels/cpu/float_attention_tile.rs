//! Attention of a block of queries: lanes are rows, so scores, weights and sums need no work across lanes.
//!
//! A vector is up to WIDTH neighbouring rows of one segment for one query head; a block is one to [`VECTORS`] of them that
//! share a head of keys. Both products are the register tile of a matrix product: keys by vectors, then columns of the
//! values by vectors, with one broadcast of a key or value for all vectors. Tiles of keys start at multiples of [`KEYS`],
//! each lane has its own maximum and its own limit, and a weight of zero adds nothing: so a lane's result does not depend
//! on the block it is in.

use crate::attention_group::{HEAD_DIM, IS_CAUSAL, SCALE, WINDOW};
use crate::curves::exponential;
use crate::vector::{Lanes, WIDTH, transpose};

/// Most vectors of a block.
pub const VECTORS: usize = constant!("EW_PARAM_VECTORS", if WIDTH == 16 { 3 } else { 2 });
/// Keys of a tile.
pub const KEYS: usize = constant!("EW_PARAM_KEYS", 32);
/// Keys, or columns of values, in registers together.
const DEPTH: usize = constant!("EW_PARAM_DEPTH", if WIDTH == 16 { 8 } else { 4 });

const _: () = assert!(HEAD_DIM.is_multiple_of(DEPTH), "columns are taken DEPTH at a time");
const _: () = assert!(KEYS.is_multiple_of(DEPTH), "keys are taken DEPTH at a time");

/// Scratch of one thread: queries and sums by column, weights by key; vectors innermost.
#[repr(C, align(64))]
pub struct Workspace {
    queries: [[[f32; WIDTH]; VECTORS]; HEAD_DIM],
    sums: [[[f32; WIDTH]; VECTORS]; HEAD_DIM],
    weights: [[[f32; WIDTH]; VECTORS]; KEYS],
    /// Tiles of a cache that is not float32.
    pub keys: [[f32; HEAD_DIM]; KEYS],
    pub values: [[f32; HEAD_DIM]; KEYS],
}

/// Rows of one vector.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The first row's queries of this head.
    pub queries: *const f32,
    /// Where its result goes.
    pub out: *mut f32,
    /// Rows; at most WIDTH.
    pub count: usize,
    /// Position of the first row.
    pub position: usize,
}

/// Some keys and values, float32, `stride` floats from one to the next.
#[derive(Clone, Copy)]
pub struct Tile {
    pub keys: *const f32,
    pub values: *const f32,
    /// Position of the first.
    pub first: usize,
    /// At most [`KEYS`].
    pub count: usize,
}

/// Maximum and sum of weights of each lane so far.
#[derive(Clone, Copy)]
pub struct Running {
    most: Lanes,
    weights: Lanes,
}

/// Turns the queries of a block so that rows are lanes, and scales them; clears the sums.
#[inline(always)]
pub unsafe fn begin<const N: usize>(
    work: &mut Workspace,
    rows: &[Rows; N],
    row_stride: usize,
) -> [Running; N] {
    for (vector, rows) in rows.iter().enumerate() {
        for column in (0..HEAD_DIM).step_by(WIDTH) {
            let mut square = [Lanes::splat(0.0); WIDTH];
            for (row, lanes) in square.iter_mut().enumerate() {
                // Lanes past the rows repeat the last row.
                let row = row.min(rows.count - 1);
                *lanes = unsafe { Lanes::load(rows.queries.add(row * row_stride + column)) }
                    .times(Lanes::splat(SCALE));
            }
            transpose(&mut square);
            for (i, lanes) in square.iter().enumerate() {
                unsafe { lanes.store(work.queries[column + i][vector].as_mut_ptr()) }
            }
        }
    }
    for sums in &mut work.sums {
        for sums in sums.iter_mut().take(N) {
            *sums = [0.0; WIDTH];
        }
    }
    [Running { most: Lanes::splat(f32::NEG_INFINITY), weights: Lanes::splat(0.0) }; N]
}

/// Adds a tile of keys and values to the sums.
#[inline(always)]
pub unsafe fn add_tile<const STRIDE: usize, const N: usize>(
    work: &mut Workspace,
    rows: &[Rows; N],
    running: &mut [Running; N],
    tile: Tile,
) {
    unsafe {
        let mut key = 0;
        while key + DEPTH <= tile.count {
            scores::<STRIDE, DEPTH, N>(work, tile.keys, key);
            key += DEPTH;
        }
        while key < tile.count {
            scores::<STRIDE, 1, N>(work, tile.keys, key);
            key += 1;
        }
        let mut decays = [Lanes::splat(0.0); N];
        for (vector, (rows, running)) in rows.iter().zip(running).enumerate() {
            if IS_CAUSAL {
                mask(work, vector, rows, tile);
            }
            decays[vector] = weigh(work, vector, running, tile.count);
        }
        for column in (0..HEAD_DIM).step_by(DEPTH) {
            add_values::<STRIDE, N>(work, &decays, tile, column);
        }
    }
}

/// Scores of `D` keys with all vectors, over the columns in order.
#[inline(always)]
unsafe fn scores<const STRIDE: usize, const D: usize, const N: usize>(
    work: &mut Workspace,
    keys: *const f32,
    first: usize,
) {
    unsafe {
        let mut products = [[Lanes::splat(0.0); N]; D];
        let keys = keys.add(first * STRIDE);
        for column in 0..HEAD_DIM {
            let queries: [Lanes; N] = core::array::from_fn(|v| Lanes::load(work.queries[column][v].as_ptr()));
            for (key, products) in products.iter_mut().enumerate() {
                let factor = Lanes::splat(*keys.add(key * STRIDE + column));
                for (product, query) in products.iter_mut().zip(&queries) {
                    *product = query.times_plus(factor, *product);
                }
            }
        }
        for (key, products) in products.iter().enumerate() {
            for (vector, product) in products.iter().enumerate() {
                product.store(work.weights[first + key][vector].as_mut_ptr());
            }
        }
    }
}

/// Puts minus infinity where a row must not look: past its own position, or before its window.
#[inline(always)]
unsafe fn mask(work: &mut Workspace, vector: usize, rows: &Rows, tile: Tile) {
    let end = tile.first + tile.count;
    let last_row = rows.position + rows.count - 1;
    let is_whole = end <= rows.position + 1 && (WINDOW == 0 || tile.first + WINDOW > last_row);
    if is_whole {
        return;
    }
    let hidden = Lanes::splat(f32::NEG_INFINITY);
    let lanes = unsafe { Lanes::load(LANE_NUMBERS.as_ptr()) };
    for key in 0..tile.count {
        // Row `lane` sees the key where lane >= ahead, and lane < ahead + WINDOW.
        let ahead = Lanes::splat((tile.first + key) as f32 - rows.position as f32);
        let at = work.weights[key][vector].as_mut_ptr();
        unsafe {
            let mut score = lanes.choose_below(ahead, hidden, Lanes::load(at));
            if WINDOW != 0 {
                score = lanes.choose_below(ahead.plus(Lanes::splat(WINDOW as f32)), score, hidden);
            }
            score.store(at);
        }
    }
}

const LANE_NUMBERS: [f32; WIDTH] = {
    let mut numbers = [0.0; WIDTH];
    let mut lane = 0;
    while lane < WIDTH {
        numbers[lane] = lane as f32;
        lane += 1;
    }
    numbers
};

/// Turns the scores of one vector into weights; returns what the earlier sums are to be multiplied with.
#[inline(always)]
unsafe fn weigh(work: &mut Workspace, vector: usize, running: &mut Running, count: usize) -> Lanes {
    unsafe {
        let mut most = running.most;
        for key in 0..count {
            most = Lanes::load(work.weights[key][vector].as_ptr()).larger(most);
        }
        // A lane that has seen nothing has no maximum; any finite one keeps its weights 0.
        let finite = most.larger(Lanes::splat(f32::MIN));
        let decay = exponential(running.most.minus(finite));
        running.most = most;
        running.weights = running.weights.times(decay);
        for key in 0..count {
            let at = work.weights[key][vector].as_mut_ptr();
            let weight = exponential(Lanes::load(at).minus(finite));
            running.weights = running.weights.plus(weight);
            weight.store(at);
        }
        decay
    }
}

/// Adds weights times values to [`DEPTH`] columns of the sums, over the keys in order.
#[inline(always)]
unsafe fn add_values<const STRIDE: usize, const N: usize>(
    work: &mut Workspace,
    decays: &[Lanes; N],
    tile: Tile,
    column: usize,
) {
    unsafe {
        let mut sums = [[Lanes::splat(0.0); N]; DEPTH];
        for (i, sums) in sums.iter_mut().enumerate() {
            for (vector, sum) in sums.iter_mut().enumerate() {
                *sum = Lanes::load(work.sums[column + i][vector].as_ptr()).times(decays[vector]);
            }
        }
        for key in 0..tile.count {
            let values = tile.values.add(key * STRIDE + column);
            let weights: [Lanes; N] = core::array::from_fn(|v| Lanes::load(work.weights[key][v].as_ptr()));
            for (i, sums) in sums.iter_mut().enumerate() {
                let value = Lanes::splat(*values.add(i));
                for (sum, weight) in sums.iter_mut().zip(&weights) {
                    *sum = weight.times_plus(value, *sum);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                sum.store(work.sums[column + i][vector].as_mut_ptr());
            }
        }
    }
}

/// Divides by the sums of the weights and turns the result back to rows.
#[inline(always)]
pub unsafe fn end<const N: usize>(
    work: &mut Workspace,
    rows: &[Rows; N],
    running: &[Running; N],
    row_stride: usize,
) {
    for (vector, rows) in rows.iter().enumerate() {
        let factor = Lanes::splat(1.0).over(running[vector].weights);
        for column in (0..HEAD_DIM).step_by(WIDTH) {
            let mut square: [Lanes; WIDTH] = core::array::from_fn(|i| {
                unsafe { Lanes::load(work.sums[column + i][vector].as_ptr()) }.times(factor)
            });
            transpose(&mut square);
            for (row, lanes) in square.iter().enumerate().take(rows.count) {
                unsafe { lanes.store(rows.out.add(row * row_stride + column)) }
            }
        }
    }
}
