//! What an attention group computes, from the constants of the builder, and where its keys and values lie.
#![allow(dead_code)]

use crate::abi::{self, Cache};
use crate::constants::{ABSENT, MOST_OPS, find, float, numbers};
use crate::vector::{Lanes, WIDTH};

const OPS: &str = text_constant!("EW_OPS", "attention");
const HEADS_OF: [usize; MOST_OPS] = numbers(texts!("HEADS"), 9);
const KV_HEADS_OF: [usize; MOST_OPS] = numbers(texts!("KV_HEADS"), 3);
const HEAD_DIMS: [usize; MOST_OPS] = numbers(texts!("HEAD_DIM"), 64);
const WINDOWS: [usize; MOST_OPS] = numbers(texts!("WINDOW"), 0);
const SCALES: [Option<&str>; MOST_OPS] = texts!("SCALE_BITS");

/// Whether rows see themselves and earlier rows only, through the cache; else all rows of their segment.
pub const IS_CAUSAL: bool = find(OPS, "self_attention", 0) == ABSENT;
/// Heads of the queries.
pub const HEADS: usize = HEADS_OF[0];
/// Heads of the keys and values.
pub const KV_HEADS: usize = if IS_CAUSAL { KV_HEADS_OF[0] } else { HEADS };
/// Query heads that share a head of keys.
pub const GROUP: usize = HEADS / KV_HEADS;
/// Width of a head.
pub const HEAD_DIM: usize = HEAD_DIMS[0];
/// Factor of the scores.
pub const SCALE: f32 = float(SCALES, 0, 0.125);
/// Positions that a row sees; 0 is all.
pub const WINDOW: usize = WINDOWS[0];
/// Vectors of a head.
pub const COLUMNS: usize = HEAD_DIM / WIDTH;

const _: () = assert!(HEADS.is_multiple_of(KV_HEADS), "query heads share key heads evenly");
const _: () = assert!(HEAD_DIM.is_multiple_of(16), "heads are whole vectors");

/// Whether cache elements are f16 and not f32.
pub const CACHE_IS_F16: bool = IS_CAUSAL && abi::same(text_constant!("EW_CACHE_DTYPE", "f32"), "f16");
/// Whether a slot is `[kv_heads, capacity, head_dim]` and not `[capacity, kv_heads, head_dim]`.
const CACHE_IS_HEAD_MAJOR: bool =
    abi::same(text_constant!("EW_CACHE_LAYOUT", "position_major"), "head_major");
/// Bytes of a cache element.
pub const ELEMENT_BYTES: usize = if CACHE_IS_F16 { 2 } else { 4 };
/// Elements between a position and the next of the same head.
pub const POSITION_STRIDE: usize =
    if IS_CAUSAL && CACHE_IS_HEAD_MAJOR { HEAD_DIM } else { KV_HEADS * HEAD_DIM };

/// Position 0 of head `head` in slot `slot` of the keys or the values.
#[inline(always)]
pub unsafe fn cached_head(base: *const u8, cache: &Cache, slot: usize, head: usize) -> *const u8 {
    let heads_apart = if CACHE_IS_HEAD_MAJOR { cache.capacity as usize * HEAD_DIM } else { HEAD_DIM };
    unsafe { base.add(slot * cache.slot_bytes + head * heads_apart * ELEMENT_BYTES) }
}

/// A vector of cache elements as float32.
#[inline(always)]
pub unsafe fn load_cached(at: *const u8) -> Lanes {
    unsafe { if CACHE_IS_F16 { Lanes::load_half(at.cast()) } else { Lanes::load(at.cast()) } }
}
