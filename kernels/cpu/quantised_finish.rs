//! What becomes of the products of a tile: stored, added to the residual, silu times, or rotated and cached.

use crate::abi::Call;
use crate::curves::{cosine_and_sine, silu};
use crate::group::{
    ABSENT, CACHE_IS_F16, CACHE_IS_HEAD_MAJOR, FINISH, FREQUENCIES, Finish, HEAD_DIM, KV_HEADS, LINEAR,
    MAGNITUDE, PAIRS_ARE_ADJACENT, ROTARY,
};
use crate::panels::PANEL_ROWS;
use crate::simd::Floats;

const CACHES: bool = matches!(FINISH, Finish::RopeCache);

/// Panels that must be finished together: a head, if a pair to rotate lies in two panels.
pub const UNIT_PANELS: usize = if CACHES && !PAIRS_ARE_ADJACENT { HEAD_DIM / PANEL_ROWS } else { 1 };

const _: () = assert!(
    !CACHES
        || (HEAD_DIM.is_multiple_of(PANEL_ROWS)
            && ROTARY.is_multiple_of(if PAIRS_ARE_ADJACENT { 2 } else { 32 })),
    "heads are whole panels, and so are the halves of what is rotated"
);

/// Bytes of the turns of one row: for each lane of a head the factor of the lane, then that of its partner.
pub const TURN_BYTES: usize = if CACHES { (8 * HEAD_DIM).next_multiple_of(64) } else { 0 };

/// Products of one row with one unit.
pub type Products = [Floats; UNIT_PANELS];

/// A place in the output: a panel of a matrix, and the row of the step that the products belong to.
#[derive(Clone, Copy)]
pub struct Place {
    /// Which `linear`.
    pub linear: usize,
    /// First output row of the unit in its matrix.
    pub output: usize,
    /// Row of the buffers.
    pub row: usize,
    /// Turns of the row's position.
    pub turns: *const f32,
}

/// Fills the turns of `position`: y = lane * cosine - partner * sine for the first of a pair, + for the second.
pub unsafe fn fill_turns(call: &Call, position: u32, turns: *mut f32) {
    unsafe {
        let frequencies = call.weights[FREQUENCIES].cast::<f32>();
        for lane in 0..HEAD_DIM {
            *turns.add(lane) = 1.0;
            *turns.add(HEAD_DIM + lane) = 0.0;
        }
        for i in 0..ROTARY / 2 {
            let (cosine, sine) = cosine_and_sine(position as f32 * *frequencies.add(i));
            let (first, second) = if PAIRS_ARE_ADJACENT { (2 * i, 2 * i + 1) } else { (i, i + ROTARY / 2) };
            *turns.add(first) = cosine * MAGNITUDE;
            *turns.add(second) = cosine * MAGNITUDE;
            *turns.add(HEAD_DIM + first) = -sine * MAGNITUDE;
            *turns.add(HEAD_DIM + second) = sine * MAGNITUDE;
        }
    }
}

/// Finishes the products of one row; `second` holds those of the second matrix if the group multiplies two.
#[inline(always)]
pub unsafe fn finish(call: &Call, place: Place, mut products: Products, second: Products) {
    unsafe {
        add_bias(call, place, &mut products);
        match FINISH {
            Finish::Store => store(call.outputs[place.linear], place, products),
            Finish::Add => {
                let width = LINEAR[0].outputs;
                let residual = call.inputs[1].add(place.row * width + place.output);
                products[0] = products[0].plus(load(residual, width - place.output));
                store(call.outputs[0], place, products);
            }
            Finish::SiluMul => {
                let mut up = second;
                add_bias(call, Place { linear: 1, ..place }, &mut up);
                products[0] = silu(products[0]).times(up[0]);
                store(call.outputs[0], place, products);
            }
            Finish::RopeCache => {
                if place.linear < 2 {
                    products = rotated(place, products);
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
unsafe fn add_bias(call: &Call, place: Place, products: &mut Products) {
    let linear = LINEAR[place.linear];
    if linear.bias == ABSENT {
        return;
    }
    for (panel, product) in products.iter_mut().enumerate() {
        let output = place.output + panel * PANEL_ROWS;
        let bias =
            unsafe { load(call.weights[linear.bias].cast::<f32>().add(output), linear.outputs - output) };
        *product = product.plus(bias);
    }
}

#[inline(always)]
unsafe fn store(buffer: *mut f32, place: Place, products: Products) {
    let width = LINEAR[place.linear].outputs;
    for (panel, product) in products.into_iter().enumerate() {
        let output = place.output + panel * PANEL_ROWS;
        let at = buffer.wrapping_add(place.row * width + output);
        unsafe {
            if width - output >= PANEL_ROWS {
                product.store(at);
            } else {
                let mut lanes = [0.0; PANEL_ROWS];
                product.store(lanes.as_mut_ptr());
                core::ptr::copy_nonoverlapping(lanes.as_ptr(), at, width - output);
            }
        }
    }
}

/// Sixteen floats, or the `left` that there are.
#[inline(always)]
unsafe fn load(at: *const f32, left: usize) -> Floats {
    unsafe {
        if left >= PANEL_ROWS {
            return Floats::load(at);
        }
        let mut lanes = [0.0; PANEL_ROWS];
        core::ptr::copy_nonoverlapping(at, lanes.as_mut_ptr(), left);
        Floats::load(lanes.as_ptr())
    }
}

/// The unit with its pairs rotated.
#[inline(always)]
unsafe fn rotated(place: Place, products: Products) -> Products {
    let halves = ROTARY / 2 / PANEL_ROWS;
    core::array::from_fn(|panel| unsafe {
        let partner = if PAIRS_ARE_ADJACENT {
            products[panel].pairs_swapped()
        } else if panel < halves {
            products[panel + halves]
        } else if panel < 2 * halves {
            products[panel - halves]
        } else {
            products[panel]
        };
        let turns = place.turns.add(place.output % HEAD_DIM + panel * PANEL_ROWS);
        partner.times_plus(Floats::load(turns.add(HEAD_DIM)), products[panel].times(Floats::load(turns)))
    })
}

#[inline(always)]
unsafe fn write_cache(call: &Call, base: *mut u8, place: Place, products: Products) {
    unsafe {
        let step = &*call.step;
        let position = *step.positions.add(place.row) as usize;
        let slot = base.add(*step.slots.add(place.row) as usize * call.cache.slot_bytes);
        for (panel, product) in products.into_iter().enumerate() {
            let output = place.output + panel * PANEL_ROWS;
            let (head, lane) = (output / HEAD_DIM, output % HEAD_DIM);
            let vector = if CACHE_IS_HEAD_MAJOR {
                head * call.cache.capacity as usize + position
            } else {
                position * KV_HEADS + head
            };
            let element = vector * HEAD_DIM + lane;
            if CACHE_IS_F16 {
                product.store_half(slot.add(2 * element));
            } else {
                product.store(slot.add(4 * element).cast());
            }
        }
    }
}
