//! Rotation of queries and keys, and writing keys and values to the cache; alone or together.

use crate::abi::{self, Call};
use crate::angles::cosine_and_sine;
use crate::constants::{ABSENT, MOST_OPS, find, float, numbers, text};
use crate::vector::{Lanes, WIDTH};

const OPS: &str = text_constant!("EW_OPS", "rope rope kv_write");
const HEADS_OF: [usize; MOST_OPS] = numbers(texts!("HEADS"), 9);
const KV_HEADS_OF: [usize; MOST_OPS] = numbers(texts!("KV_HEADS"), 9);
const HEAD_DIMS: [usize; MOST_OPS] = numbers(texts!("HEAD_DIM"), 64);
const ROTARIES: [usize; MOST_OPS] = numbers(texts!("ROTARY"), 64);
const PAIRINGS: [Option<&str>; MOST_OPS] = texts!("PAIRING");
const MAGNITUDES: [Option<&str>; MOST_OPS] = texts!("MAGNITUDE_BITS");

const ROPES: usize = abi::count(OPS, "rope");
const WRITE: usize = find(OPS, "kv_write", 0);
const WRITES: bool = WRITE != ABSENT;
/// Whether a first input is rotated and put out; with `kv_write`, the last rotation is of the keys.
const TURNS_QUERIES: bool = ROPES > WRITES as usize;
const CACHE_OP: usize = if WRITES { WRITE } else { 0 };
const HEAD_DIM: usize = HEAD_DIMS[0];
const ROTARY: usize = ROTARIES[0];
const PAIRS: usize = ROTARY / 2;
const PAIRS_ARE_ADJACENT: bool = abi::same(text(PAIRINGS, 0, "adjacent"), "adjacent");
const MAGNITUDE: f32 = float(MAGNITUDES, 0, 1.0);

const KV_HEADS: usize = KV_HEADS_OF[CACHE_OP];
const CACHE_IS_F16: bool = abi::same(text_constant!("EW_CACHE_DTYPE", "f32"), "f16");
const CACHE_IS_HEAD_MAJOR: bool =
    abi::same(text_constant!("EW_CACHE_LAYOUT", "position_major"), "head_major");

const _: () = assert!(!WRITES || HEAD_DIM.is_multiple_of(WIDTH), "a cached head is whole vectors");

pub unsafe fn rows(call: &Call) -> usize {
    unsafe { (*call.step).rows as usize }
}

pub unsafe fn run(call: &Call, row: usize) {
    unsafe {
        let position = *(*call.step).positions.add(row);
        let mut table = [[0.0; 2]; PAIRS];
        if ROPES > 0 {
            let frequencies = call.weights[0].cast::<f32>();
            for (pair, turn) in table.iter_mut().enumerate() {
                let (cosine, sine) = cosine_and_sine(position as f32 * *frequencies.add(pair));
                *turn = [cosine * MAGNITUDE, sine * MAGNITUDE];
            }
            if TURNS_QUERIES {
                for head in 0..HEADS_OF[0] {
                    let at = (row * HEADS_OF[0] + head) * HEAD_DIM;
                    let turned = turn(call.inputs[0].add(at), &table);
                    call.outputs[0].add(at).cast::<[f32; HEAD_DIM]>().write(turned);
                }
            }
        }
        if WRITES {
            let (keys, values) =
                (call.inputs[TURNS_QUERIES as usize], call.inputs[TURNS_QUERIES as usize + 1]);
            for head in 0..KV_HEADS {
                let at = (row * KV_HEADS + head) * HEAD_DIM;
                let key = keys.add(at).cast::<[f32; HEAD_DIM]>();
                let key = if ROPES > 0 { turn(key.cast(), &table) } else { *key };
                let place = place(call, row, position as usize, head);
                write(call.cache.keys.add(place), &key);
                write(call.cache.values.add(place), &*values.add(at).cast::<[f32; HEAD_DIM]>());
            }
        }
    }
}

/// One head with its pairs rotated; lanes past [`ROTARY`] stay.
#[inline(always)]
unsafe fn turn(head: *const f32, table: &[[f32; 2]; PAIRS]) -> [f32; HEAD_DIM] {
    let mut turned = unsafe { *head.cast::<[f32; HEAD_DIM]>() };
    for (pair, [cosine, sine]) in table.iter().enumerate() {
        let (i, j) = if PAIRS_ARE_ADJACENT { (2 * pair, 2 * pair + 1) } else { (pair, pair + PAIRS) };
        let (a, b) = (turned[i], turned[j]);
        turned[i] = a * cosine - b * sine;
        turned[j] = b * cosine + a * sine;
    }
    turned
}

/// Byte offset of a head in the cache.
#[inline(always)]
unsafe fn place(call: &Call, row: usize, position: usize, head: usize) -> usize {
    let slot = unsafe { *(*call.step).slots.add(row) } as usize;
    let vector = if CACHE_IS_HEAD_MAJOR {
        head * call.cache.capacity as usize + position
    } else {
        position * KV_HEADS + head
    };
    slot * call.cache.slot_bytes + vector * HEAD_DIM * if CACHE_IS_F16 { 2 } else { 4 }
}

#[inline(always)]
unsafe fn write(at: *mut u8, head: &[f32; HEAD_DIM]) {
    for column in (0..HEAD_DIM).step_by(WIDTH) {
        unsafe {
            let values = Lanes::load(head.as_ptr().add(column));
            if CACHE_IS_F16 {
                values.store_half(at.cast::<u16>().add(column));
            } else {
                values.store(at.cast::<f32>().add(column));
            }
        }
    }
}
