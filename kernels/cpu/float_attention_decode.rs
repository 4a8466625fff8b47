//! Attention of single rows over long caches: positions are cut into parts that threads share, then joined.
//!
//! Phase 0: one unit is a row, a part of its positions and a head of keys; keys and values are read once for all query
//! heads that share them, block by block with a running maximum. Phase 1 joins the parts of a head in order.
//! Where the parts lie depends on the row's own position only, so neither batch nor threads change a byte.

use crate::abi::{ABI, Call, share};
use crate::attention_group::{
    COLUMNS, ELEMENT_BYTES, GROUP, HEAD_DIM, HEADS, KV_HEADS, POSITION_STRIDE, SCALE, WINDOW, cached_head,
    load_cached,
};
use crate::curves::exponential;
use crate::vector::{Lanes, WIDTH, prefetch};
use core::sync::atomic::Ordering;

/// Positions of a block.
const BLOCK: usize = constant!("EW_PARAM_BLOCK", 32);
/// Most parts of a row.
const PARTS: usize = constant!("EW_PARAM_PARTS", 16);
/// Positions that keys and values are asked for ahead; 0 leaves it to the processor.
const PREFETCH: usize = constant!("EW_PARAM_PREFETCH", 0);
/// Units of a ticket; 0 divides the units evenly beforehand.
const TICKET_UNITS: usize = constant!("EW_PARAM_TICKET_UNITS", 0);

const _: () = assert!(BLOCK.is_multiple_of(WIDTH), "a block is whole vectors of scores");
/// Query heads whose sums stay in registers together.
const AT_ONCE: usize = heads_at_once();
/// Floats of a part in the scratch: the weighted sum of the values, the maximum, the sum of the weights.
const PART_FLOATS: usize = HEAD_DIM + 16;
const CACHE_LINE: usize = 64;

/// The largest divisor of the group whose sums fill at most half of the registers.
const fn heads_at_once() -> usize {
    let mut heads = GROUP;
    while heads > 1 && (heads * COLUMNS > WIDTH || !GROUP.is_multiple_of(heads)) {
        heads -= 1;
    }
    heads
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    2
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(rows: u32, _threads: u32) -> usize {
    rows as usize * HEADS * PARTS * PART_FLOATS * 4
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(_weight: u32, _stored: *const u8, _packed: *mut u8) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let rows = (*call.step).rows as usize;
        let (thread, threads) = (thread as usize, call.threads as usize);
        if phase == 1 {
            let (first, last) = share(rows * HEADS, 1, thread, threads);
            for item in first..last {
                join(call, item / HEADS, item % HEADS);
            }
            return;
        }
        let units = (0..rows).map(|row| Range::of(call, row).parts() * KV_HEADS).sum();
        if TICKET_UNITS == 0 {
            let (first, last) = share(units, 1, thread, threads);
            attend_units(call, first, last);
        } else {
            loop {
                let first = (*call.ticket).fetch_add(1, Ordering::Relaxed) as usize * TICKET_UNITS;
                if first >= units {
                    break;
                }
                attend_units(call, first, units.min(first + TICKET_UNITS));
            }
        }
    }
}

/// The positions that a row sees, and how they are cut.
#[derive(Clone, Copy)]
struct Range {
    first: usize,
    end: usize,
    /// Positions of a part but the last: whole blocks.
    part: usize,
}

impl Range {
    unsafe fn of(call: &Call, row: usize) -> Self {
        let end = unsafe { *(*call.step).positions.add(row) } as usize + 1;
        let first = if WINDOW == 0 { 0 } else { end.saturating_sub(WINDOW) };
        Self { first, end, part: (end - first).div_ceil(BLOCK).div_ceil(PARTS) * BLOCK }
    }

    fn parts(&self) -> usize {
        (self.end - self.first).div_ceil(self.part)
    }
}

/// Runs units `first` to `last`, counted over rows, then parts, then heads of keys.
unsafe fn attend_units(call: &Call, first: usize, last: usize) {
    let (mut row, mut before) = (0, 0);
    unsafe {
        for unit in first..last {
            let mut range = Range::of(call, row);
            while unit >= before + range.parts() * KV_HEADS {
                before += range.parts() * KV_HEADS;
                row += 1;
                range = Range::of(call, row);
            }
            let (part, head) = ((unit - before) / KV_HEADS, (unit - before) % KV_HEADS);
            attend(call, row, head, part, range);
        }
    }
}

fn part_at(call: &Call, row: usize, head: usize, part: usize) -> *mut f32 {
    call.scratch.cast::<f32>().wrapping_add(((row * HEADS + head) * PARTS + part) * PART_FLOATS)
}

/// Running result of one query head.
#[derive(Clone, Copy)]
struct Running {
    most: f32,
    weights: Lanes,
    values: [Lanes; COLUMNS],
}

/// Keys and values of one head.
#[derive(Clone, Copy)]
struct Head {
    keys: *const u8,
    values: *const u8,
}

/// One part of a row for the query heads of one head of keys.
unsafe fn attend(call: &Call, row: usize, kv_head: usize, part: usize, range: Range) {
    unsafe {
        let slot = *(*call.step).slots.add(row) as usize;
        let head = Head {
            keys: cached_head(call.cache.keys, &call.cache, slot, kv_head),
            values: cached_head(call.cache.values, &call.cache, slot, kv_head),
        };
        let (first, end) =
            (range.first + part * range.part, range.end.min(range.first + (part + 1) * range.part));
        let mut running = [Running {
            most: f32::NEG_INFINITY,
            weights: Lanes::splat(0.0),
            values: [Lanes::splat(0.0); COLUMNS],
        }; GROUP];
        let mut block = first;
        while block < end {
            let count = BLOCK.min(end - block);
            for (some, running) in running.as_chunks_mut::<AT_ONCE>().0.iter_mut().enumerate() {
                let query_head = kv_head * GROUP + some * AT_ONCE;
                let queries = call.inputs[0].add((row * HEADS + query_head) * HEAD_DIM);
                attend_block(queries, head, block, count, running);
            }
            block += BLOCK;
        }
        for (i, running) in running.iter().enumerate() {
            let out = part_at(call, row, kv_head * GROUP + i, part);
            for (column, values) in running.values.iter().enumerate() {
                values.store(out.add(column * WIDTH));
            }
            *out.add(HEAD_DIM) = running.most;
            *out.add(HEAD_DIM + 1) = running.weights.sum();
        }
    }
}

/// Adds `count` positions from `first` to the running results.
#[inline(always)]
unsafe fn attend_block(
    queries: *const f32,
    head: Head,
    first: usize,
    count: usize,
    running: &mut [Running; AT_ONCE],
) {
    unsafe {
        let mut weights = [[0.0; BLOCK]; AT_ONCE];
        scores(queries, head.keys, first, count, &mut weights);
        for (running, weights) in running.iter_mut().zip(&mut weights) {
            let mut most = Lanes::splat(f32::NEG_INFINITY);
            for at in (0..BLOCK).step_by(WIDTH) {
                most = Lanes::load(weights.as_ptr().add(at)).larger(most);
            }
            let most = most.largest().max(running.most);
            let decay = exponential(Lanes::splat(running.most - most));
            running.most = most;
            running.weights = running.weights.times(decay);
            for values in &mut running.values {
                *values = values.times(decay);
            }
            for at in (0..BLOCK).step_by(WIDTH) {
                let weight = exponential(Lanes::load(weights.as_ptr().add(at)).minus(Lanes::splat(most)));
                running.weights = running.weights.plus(weight);
                weight.store(weights.as_mut_ptr().add(at));
            }
        }
        let mut sums = running.map(|running| running.values);
        for i in 0..count {
            let at = position(head.values, first + i);
            for column in 0..COLUMNS {
                let value = load_cached(at.add(column * WIDTH * ELEMENT_BYTES));
                for (sums, weights) in sums.iter_mut().zip(&weights) {
                    sums[column] = Lanes::splat(weights[i]).times_plus(value, sums[column]);
                }
            }
        }
        for (running, sums) in running.iter_mut().zip(sums) {
            running.values = sums;
        }
    }
}

/// Scaled products of the queries with the keys of a block; minus infinity past `count`.
#[inline(always)]
unsafe fn scores(
    queries: *const f32,
    keys: *const u8,
    first: usize,
    count: usize,
    scores: &mut [[f32; BLOCK]; AT_ONCE],
) {
    unsafe {
        let mut query = [[Lanes::splat(0.0); COLUMNS]; AT_ONCE];
        for (i, query) in query.iter_mut().enumerate() {
            for (column, query) in query.iter_mut().enumerate() {
                *query = Lanes::load(queries.add(i * HEAD_DIM + column * WIDTH)).times(Lanes::splat(SCALE));
            }
        }
        for start in (0..BLOCK).step_by(WIDTH) {
            let mut products = [[Lanes::splat(0.0); WIDTH]; AT_ONCE];
            for i in 0..WIDTH {
                // Positions past the block repeat its last, and are left out below.
                let at = position(keys, first + (start + i).min(count - 1));
                ask_ahead(at);
                for column in 0..COLUMNS {
                    let key = load_cached(at.add(column * WIDTH * ELEMENT_BYTES));
                    for (products, query) in products.iter_mut().zip(&query) {
                        products[i] = query[column].times_plus(key, products[i]);
                    }
                }
            }
            for (scores, products) in scores.iter_mut().zip(products) {
                Lanes::sums(products).store(scores.as_mut_ptr().add(start));
            }
        }
        for scores in scores {
            scores[count..].fill(f32::NEG_INFINITY);
        }
    }
}

#[inline(always)]
fn position(base: *const u8, position: usize) -> *const u8 {
    base.wrapping_add(position * POSITION_STRIDE * ELEMENT_BYTES)
}

/// Asks for the vector [`PREFETCH`] positions past `at`.
#[inline(always)]
fn ask_ahead(at: *const u8) {
    if PREFETCH != 0 {
        for line in (0..HEAD_DIM * ELEMENT_BYTES).step_by(CACHE_LINE) {
            prefetch(position(at, PREFETCH).wrapping_add(line));
        }
    }
}

/// Joins the parts of one query head, in order.
unsafe fn join(call: &Call, row: usize, head: usize) {
    unsafe {
        let parts = Range::of(call, row).parts();
        let mut most = f32::NEG_INFINITY;
        for part in 0..parts {
            most = most.max(*part_at(call, row, head, part).add(HEAD_DIM));
        }
        let (mut total, mut sums) = (Lanes::splat(0.0), [Lanes::splat(0.0); COLUMNS]);
        for part in 0..parts {
            let part = part_at(call, row, head, part);
            let weight = exponential(Lanes::splat(*part.add(HEAD_DIM) - most));
            total = weight.times_plus(Lanes::splat(*part.add(HEAD_DIM + 1)), total);
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = weight.times_plus(Lanes::load(part.add(column * WIDTH)), *sum);
            }
        }
        let out = call.outputs[0].add((row * HEADS + head) * HEAD_DIM);
        for (column, sum) in sums.iter().enumerate() {
            sum.over(total).store(out.add(column * WIDTH));
        }
    }
}
