//! Where a head of a position lies in the cache, in either layout and element type.
#![allow(dead_code)]

use crate::abi::{Cache, same};
use crate::half::{from_half, to_half};

const IS_HALF: bool = same(text_constant!("EW_CACHE_DTYPE", "f32"), "f16");
const IS_HEAD_MAJOR: bool = same(text_constant!("EW_CACHE_LAYOUT", "position_major"), "head_major");
const KV_HEADS: usize = constant!("EW_OP0_KV_HEADS", 3);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 64);

/// Index of the first value of head `head` at `position` inside a slot.
const fn index(cache: &Cache, position: usize, head: usize) -> usize {
    let place =
        if IS_HEAD_MAJOR { head * cache.capacity as usize + position } else { position * KV_HEADS + head };
    place * HEAD_DIM
}

/// Puts a head into `part` (the keys or the values) of `cache`.
pub unsafe fn store(part: *mut u8, cache: &Cache, slot: usize, place: (usize, usize), head: &[f32]) {
    let at = index(cache, place.0, place.1);
    unsafe {
        let slot = part.add(slot * cache.slot_bytes);
        for (i, &value) in head.iter().enumerate() {
            if IS_HALF {
                *slot.cast::<u16>().add(at + i) = to_half(value);
            } else {
                *slot.cast::<f32>().add(at + i) = value;
            }
        }
    }
}

/// A head of `part` (the keys or the values) of `cache`, as float32.
pub unsafe fn load(part: *const u8, cache: &Cache, slot: usize, place: (usize, usize)) -> [f32; HEAD_DIM] {
    let at = index(cache, place.0, place.1);
    unsafe {
        let slot = part.add(slot * cache.slot_bytes);
        if IS_HALF {
            let halves = &*slot.cast::<u16>().add(at).cast::<[u16; HEAD_DIM]>();
            core::array::from_fn(|i| from_half(halves[i]))
        } else {
            *slot.cast::<f32>().add(at).cast::<[f32; HEAD_DIM]>()
        }
    }
}
