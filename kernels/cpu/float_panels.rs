//! Layouts `f32.x16`, `f16.x16`, `bf16.x16`: panels of sixteen matrix rows, `[out / 16, in, 16]`, elements as stored.
//!
//! The inputs of sixteen outputs lie side by side, so a vector of weights meets one broadcast activation, and each
//! output is one chain of products in the order of the inputs, whatever the tile. Missing rows of the last panel are 0.

use crate::linear_group::{ELEMENT, ELEMENT_BYTES, Element, Linear};
use crate::vector::Lanes;

/// Matrix rows of a panel.
pub const PANEL_ROWS: usize = 16;

/// Panels of a matrix.
pub const fn panels(linear: &Linear) -> usize {
    linear.outputs.div_ceil(PANEL_ROWS)
}

/// Bytes of a panel.
pub const fn panel_bytes(linear: &Linear) -> usize {
    linear.inputs * PANEL_ROWS * ELEMENT_BYTES
}

/// Packs a matrix `[out, in]`.
pub unsafe fn pack(linear: &Linear, stored: *const u8, packed: *mut u8) {
    for panel in 0..panels(linear) {
        for input in 0..linear.inputs {
            for row in 0..PANEL_ROWS {
                let output = panel * PANEL_ROWS + row;
                let place = (panel * linear.inputs + input) * PANEL_ROWS + row;
                unsafe {
                    let target = packed.add(place * ELEMENT_BYTES);
                    if output < linear.outputs {
                        let source = stored.add((output * linear.inputs + input) * ELEMENT_BYTES);
                        core::ptr::copy_nonoverlapping(source, target, ELEMENT_BYTES);
                    } else {
                        core::ptr::write_bytes(target, 0, ELEMENT_BYTES);
                    }
                }
            }
        }
    }
}

/// A vector of weights as float32.
#[inline(always)]
pub unsafe fn weights(at: *const u8) -> Lanes {
    unsafe {
        match ELEMENT {
            Element::Single => Lanes::load(at.cast()),
            Element::Half => Lanes::load_half(at.cast()),
            Element::Brain => Lanes::load_brain(at.cast()),
        }
    }
}
