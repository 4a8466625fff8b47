//! Attention of many rows: what the host calls, and how blocks of queries are shared out.
//!
//! Used for prompts (`attention`, through the cache) and for encoders (`self_attention`, both ways within a segment).
//! Blocks are taken by ticket, the last of a segment first, since under a causal mask it has the most keys.

use crate::abi::{ABI, Call};
use crate::attention_group::{
    CACHE_IS_F16, ELEMENT_BYTES, GROUP, HEAD_DIM, HEADS, IS_CAUSAL, KV_HEADS, POSITION_STRIDE, WINDOW,
    cached_head, load_cached,
};
use crate::attention_tile::{KEYS, Rows, Tile, VECTORS, Workspace, add_tile, begin, end};
use crate::vector::WIDTH;
use core::sync::atomic::Ordering;

/// Floats between neighbouring rows of queries and of results.
const ROW_STRIDE: usize = HEADS * HEAD_DIM;
/// Floats between neighbouring keys of a tile.
const STRIDE: usize = if CACHE_IS_F16 { HEAD_DIM } else { POSITION_STRIDE };

const _: () = assert!(VECTORS >= 1 && VECTORS <= 4, "a block has 1 to 4 vectors");

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, threads: u32) -> usize {
    threads as usize * size_of::<Workspace>()
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(_weight: u32, _stored: *const u8, _packed: *mut u8) {}

/// A segment of the step.
#[derive(Clone, Copy)]
struct Segment {
    first: usize,
    rows: usize,
}

impl Segment {
    unsafe fn of(call: &Call, number: usize) -> Self {
        unsafe {
            let starts = (*call.step).starts.add(number);
            let (first, end) = (*starts as usize, *starts.add(1) as usize);
            Self { first, rows: end - first }
        }
    }

    /// Vectors for each head of keys: for every run of WIDTH rows, one for each query head of the group.
    fn vectors(&self) -> usize {
        self.rows.div_ceil(WIDTH) * GROUP
    }

    fn blocks(&self) -> usize {
        self.vectors().div_ceil(VECTORS)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let work = &mut *call.scratch.cast::<Workspace>().add(thread as usize);
        let (mut number, mut before, segments) = (0, 0, (*call.step).segments as usize);
        loop {
            let ticket = (*call.ticket).fetch_add(1, Ordering::Relaxed) as usize;
            while number < segments && ticket >= before + Segment::of(call, number).blocks() * KV_HEADS {
                before += Segment::of(call, number).blocks() * KV_HEADS;
                number += 1;
            }
            if number == segments {
                break;
            }
            let segment = Segment::of(call, number);
            let block = segment.blocks() - 1 - (ticket - before) / KV_HEADS;
            run_block(call, work, segment, block, (ticket - before) % KV_HEADS);
        }
    }
}

/// Splits the block's vectors evenly over the blocks of the segment and runs it.
unsafe fn run_block(call: &Call, work: &mut Workspace, segment: Segment, block: usize, kv_head: usize) {
    let (first, last) = crate::abi::share(segment.vectors(), 1, block, segment.blocks());
    unsafe {
        match last - first {
            1 => attend::<1>(call, work, segment, first, kv_head),
            2 if VECTORS >= 2 => attend::<2>(call, work, segment, first, kv_head),
            3 if VECTORS >= 3 => attend::<3>(call, work, segment, first, kv_head),
            4 if VECTORS >= 4 => attend::<4>(call, work, segment, first, kv_head),
            _ => {}
        }
    }
}

/// Keys and values that a block looks at.
#[derive(Clone, Copy)]
struct Source {
    keys: *const u8,
    values: *const u8,
    /// First position and the one past the last.
    first: usize,
    end: usize,
}

/// Runs the `N` vectors from number `first` of a segment.
#[inline(always)]
unsafe fn attend<const N: usize>(
    call: &Call,
    work: &mut Workspace,
    segment: Segment,
    first: usize,
    kv_head: usize,
) {
    unsafe {
        let start = if IS_CAUSAL { *(*call.step).positions.add(segment.first) as usize } else { 0 };
        let rows: [Rows; N] = core::array::from_fn(|i| {
            let (run, head) = ((first + i) / GROUP, kv_head * GROUP + (first + i) % GROUP);
            let at = (segment.first + run * WIDTH) * ROW_STRIDE + head * HEAD_DIM;
            Rows {
                queries: call.inputs[0].add(at),
                out: call.outputs[0].add(at),
                count: WIDTH.min(segment.rows - run * WIDTH),
                position: start + run * WIDTH,
            }
        });
        let source = if IS_CAUSAL {
            let end = rows[N - 1].position + rows[N - 1].count;
            let first = if WINDOW == 0 { 0 } else { (rows[0].position + 1).saturating_sub(WINDOW) };
            let slot = *(*call.step).slots.add(segment.first) as usize;
            Source {
                keys: cached_head(call.cache.keys, &call.cache, slot, kv_head),
                values: cached_head(call.cache.values, &call.cache, slot, kv_head),
                first: first - first % KEYS,
                end,
            }
        } else {
            let at = segment.first * ROW_STRIDE + kv_head * HEAD_DIM;
            let (keys, values) = (call.inputs[1].add(at).cast(), call.inputs[2].add(at).cast());
            Source { keys, values, first: 0, end: segment.rows }
        };
        let mut running = begin(work, &rows, ROW_STRIDE);
        let mut position = source.first;
        while position < source.end {
            let tile = tile(work, &source, position);
            add_tile::<STRIDE, N>(work, &rows, &mut running, tile);
            position += KEYS;
        }
        end(work, &rows, &running, ROW_STRIDE);
    }
}

/// The tile at `position`, made float32 if it is not.
#[inline(always)]
unsafe fn tile(work: &mut Workspace, source: &Source, position: usize) -> Tile {
    let count = KEYS.min(source.end - position);
    let offset = position * POSITION_STRIDE * ELEMENT_BYTES;
    let (keys, values) = (source.keys.wrapping_add(offset), source.values.wrapping_add(offset));
    if !CACHE_IS_F16 {
        return Tile { keys: keys.cast(), values: values.cast(), first: position, count };
    }
    for i in 0..count {
        for column in (0..HEAD_DIM).step_by(WIDTH) {
            let at = (i * POSITION_STRIDE + column) * ELEMENT_BYTES;
            unsafe {
                load_cached(keys.add(at)).store(work.keys[i].as_mut_ptr().add(column));
                load_cached(values.add(at)).store(work.values[i].as_mut_ptr().add(column));
            }
        }
    }
    Tile { keys: work.keys.as_ptr().cast(), values: work.values.as_ptr().cast(), first: position, count }
}
