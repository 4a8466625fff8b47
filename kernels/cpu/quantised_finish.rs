//! What becomes of the products of a tile: stored, added to the residual, silu times, or rotated and cached.

use crate::abi::Call;
use crate::curves::{cosine_and_sine, silu};
use crate::group::{
    ABSENT, CACHE_IS_F16, CACHE_IS_HEAD_MAJOR, FINISH, FREQUENCIES, Finish, HEAD_DIM, KV_HEADS, LINEAR,
    MAGNITUDE, PAIRS_ARE_ADJACENT, ROTARY,
};
use crate::panels::PANEL_ROWS;
use crate::simd::Floats;

/// Panels that must be finished together: a head, if a pair to rotate may lie in two panels.
pub const UNIT_PANELS: usize =
    if matches!(FINISH, Finish::RopeCache) && !PAIRS_ARE_ADJACENT { HEAD_DIM / PANEL_ROWS } else { 1 };
/// Output rows of a unit.
pub const UNIT_ROWS: usize = UNIT_PANELS * PANEL_ROWS;

/// Bytes of the cosines and sines of one row.
pub const TABLE_BYTES: usize =
    if matches!(FINISH, Finish::RopeCache) { (4 * ROTARY).next_multiple_of(64) } else { 0 };
const PAIRS: usize = ROTARY / 2;

/// Products of one row with one unit.
pub type Products = [f32; UNIT_ROWS];

/// A place in the output: unit of rows of one matrix, and the row of the step that the products belong to.
#[derive(Clone, Copy)]
pub struct Place {
    /// Which `linear`.
    pub linear: usize,
    /// First output row of the unit in its matrix.
    pub output: usize,
    /// Row of the buffers.
    pub row: usize,
    /// Cosines and sines of the row's position.
    pub table: *const f32,
}

/// Fills the cosines, then the sines, of the angles of `position`.
pub unsafe fn fill_table(call: &Call, position: u32, table: *mut f32) {
    unsafe {
        let frequencies = call.weights[FREQUENCIES].cast::<f32>();
        for i in 0..PAIRS {
            let (cosine, sine) = cosine_and_sine(position as f32 * *frequencies.add(i));
            *table.add(i) = cosine * MAGNITUDE;
            *table.add(PAIRS + i) = sine * MAGNITUDE;
        }
    }
}

/// Finishes the products of one row; `second` holds those of the second matrix if the group multiplies two.
#[inline(always)]
pub unsafe fn finish(call: &Call, place: Place, products: &mut Products, second: &mut Products) {
    unsafe {
        add_bias(call, place.linear, place.output, products);
        match FINISH {
            Finish::Store => store(call.outputs[place.linear], place, products),
            Finish::Add => {
                let width = LINEAR[0].outputs;
                let residual = call.inputs[1].add(place.row * width + place.output);
                for (i, product) in products.iter_mut().enumerate().take(width - place.output) {
                    *product += *residual.add(i);
                }
                store(call.outputs[0], place, products);
            }
            Finish::SiluMul => {
                add_bias(call, 1, place.output, second);
                for (gate, up) in products.iter_mut().zip(second) {
                    *gate = silu(*gate) * *up;
                }
                store(call.outputs[0], place, products);
            }
            Finish::RopeCache => {
                if place.linear < 2 {
                    rotate(place, products);
                }
                match place.linear {
                    0 => store(call.outputs[0], place, products),
                    1 => write_cache(call, call.cache.keys, place, products),
                    _ => write_cache(call, call.cache.values, place, products),
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn add_bias(call: &Call, linear: usize, output: usize, products: &mut Products) {
    let Some(linear) = LINEAR.get(linear).filter(|linear| linear.bias != ABSENT) else { return };
    let bias = call.weights[linear.bias].cast::<f32>();
    for (i, product) in products.iter_mut().enumerate().take(linear.outputs - output) {
        *product += unsafe { *bias.add(output + i) };
    }
}

#[inline(always)]
unsafe fn store(buffer: *mut f32, place: Place, products: &Products) {
    let width = LINEAR[place.linear].outputs;
    let count = UNIT_ROWS.min(width - place.output);
    unsafe {
        core::ptr::copy_nonoverlapping(products.as_ptr(), buffer.add(place.row * width + place.output), count)
    }
}

/// Rotates the pairs of a unit; lanes of the head past [`ROTARY`] stay.
#[inline(always)]
unsafe fn rotate(place: Place, products: &mut Products) {
    let lane = place.output % HEAD_DIM;
    let (apart, between, first_pair) = if PAIRS_ARE_ADJACENT { (1, 2, lane / 2) } else { (PAIRS, 1, 0) };
    let pairs =
        if PAIRS_ARE_ADJACENT { (UNIT_ROWS / 2).min(PAIRS.saturating_sub(first_pair)) } else { PAIRS };
    for i in 0..pairs {
        unsafe {
            let (cosine, sine) = (*place.table.add(first_pair + i), *place.table.add(PAIRS + first_pair + i));
            let (a, b) = (products[i * between], products[i * between + apart]);
            products[i * between] = a * cosine - b * sine;
            products[i * between + apart] = b * cosine + a * sine;
        }
    }
}

#[inline(always)]
unsafe fn write_cache(call: &Call, base: *mut u8, place: Place, products: &Products) {
    unsafe {
        let step = &*call.step;
        let position = *step.positions.add(place.row) as usize;
        let slot = base.add(*step.slots.add(place.row) as usize * call.cache.slot_bytes);
        for (panel, products) in products.as_chunks::<PANEL_ROWS>().0.iter().enumerate() {
            let output = place.output + panel * PANEL_ROWS;
            let (head, lane) = (output / HEAD_DIM, output % HEAD_DIM);
            let vector = if CACHE_IS_HEAD_MAJOR {
                head * call.cache.capacity as usize + position
            } else {
                position * KV_HEADS + head
            };
            let element = vector * HEAD_DIM + lane;
            let values = Floats::load(products.as_ptr());
            if CACHE_IS_F16 {
                values.store_half(slot.add(2 * element));
            } else {
                values.store(slot.add(4 * element).cast());
            }
        }
    }
}
