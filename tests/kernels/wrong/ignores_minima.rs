//! Negative control: the minima of Q4_K are left out.
//!
//! ```toml
//! name = "ignores_minima"
//! pattern = "linear"
//! matrices = ["q4_k"]
//! layout = "q4_k.x16"
//! steps = ["prefill"]
//! numerics = ["activations_q8"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "quantised_curves.rs"]
mod curves;
#[path = "quantised_finish.rs"]
mod finish;
#[path = "quantised_group.rs"]
mod group;
#[path = "naive_half.rs"]
mod half;
#[path = "quantised_layout.rs"]
mod layout;
#[path = "quantised_one_type.rs"]
mod matrices;
#[path = "layout_nibbles.rs"]
mod nibbles;
#[path = "quantised_panels.rs"]
mod panels;
#[path = "layout_q4_k.rs"]
mod right;
#[path = "quantised_rows_int8.rs"]
mod rows;
#[path = "quantised_run.rs"]
mod run;
#[path = "simd_portable.rs"]
mod simd;
#[path = "quantised_tile_int8.rs"]
mod tile;

mod packed {
    use crate::layout::Layout;
    use crate::right::Packed as Right;
    use crate::simd::{Bytes, Lanes};

    pub struct Packed;

    impl Layout for Packed {
        const STORED_INPUTS: usize = Right::STORED_INPUTS;
        const STORED_BYTES: usize = Right::STORED_BYTES;
        const HEAD_BYTES: usize = Right::HEAD_BYTES;
        const BODY_BYTES: usize = Right::BODY_BYTES;
        const MOST: u32 = Right::MOST;
        const ZERO: i32 = Right::ZERO;
        const SCALES: usize = Right::SCALES;
        const HAS_MINIMUM: bool = false;

        type Shared = <Right as Layout>::Shared;

        unsafe fn pack(stored: *const u8, row_bytes: usize, rows: usize, head: *mut u8, bodies: *mut u8) {
            unsafe { Right::pack(stored, row_bytes, rows, head, bodies) }
        }

        unsafe fn shared(head: *const u8, part: usize) -> Self::Shared {
            unsafe { Right::shared(head, part) }
        }

        unsafe fn weights(body: *const u8, part: usize) -> [Bytes; 8] {
            unsafe { Right::weights(body, part) }
        }

        unsafe fn scale(
            shared: Self::Shared,
            head: *const u8,
            block: usize,
            number: usize,
            part: usize,
        ) -> Lanes {
            unsafe { Right::scale(shared, head, block, number, part) }
        }

        unsafe fn minimum(shared: Self::Shared, head: *const u8, block: usize, part: usize) -> Lanes {
            unsafe { Right::minimum(shared, head, block, part) }
        }
    }
}
