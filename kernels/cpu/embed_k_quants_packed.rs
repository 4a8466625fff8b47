//! Rows of a Q4_K or Q6_K token table out of the layout that the head of a tied model multiplies with. Family: embed.
//!
//!   x[r, k] = scale[token, k] * w[token, k] - minimum[token, k]
//!
//! Bound: memory, and little of it. Why it exists: as `embed_q8_0_packed.rs`; files of llama.cpp's Q4_K_M have the table of
//! a tied model as Q6_K.
//!
//! ```toml
//! name = "embed_k_quants_packed"
//! pattern = "embed"
//! matrices = ["q4_k", "q6_k"]
//! layout = "{dtype}.x16"
//! steps = ["prefill", "decode", "encode"]
//! requires = []
//! numerics = []
//! constraints = ["OP_WIDTH % 256 == 0", "OP_WEIGHTS == 1"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_half.rs"]
mod half;
#[path = "quantised_layout.rs"]
mod layout;
#[path = "layout_nibbles.rs"]
mod nibbles;
#[path = "quantised_panels.rs"]
mod panels;
#[path = "layout_q4_k.rs"]
mod q4_k;
#[path = "layout_q6_k.rs"]
mod q6_k;
#[path = "simd_portable.rs"]
mod simd;

use abi::{ABI, Call, same, share};
use half::from_half;
use layout::{BLOCK, Layout};
use panels::{PANEL_ROWS, Panel, panels};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 768);
const VOCABULARY: usize = constant!("EW_OP0_ENTRIES", 49152);
const IS_Q6_K: bool = same(text_constant!("EW_OP0_DTYPES", "q6_k"), "q6_k");
const PANEL_BYTES: usize =
    if IS_Q6_K { Panel::<q6_k::Packed, WIDTH>::BYTES } else { Panel::<q4_k::Packed, WIDTH>::BYTES };

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, _threads: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    panels(VOCABULARY) * PANEL_BYTES
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(_weight: u32, stored: *const u8, packed: *mut u8) {
    unsafe {
        if IS_Q6_K {
            Panel::<q6_k::Packed, WIDTH>::pack(VOCABULARY, stored, packed);
        } else {
            Panel::<q4_k::Packed, WIDTH>::pack(VOCABULARY, stored, packed);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let step = &*call.step;
        let (first, last) = share(step.rows as usize, 1, thread as usize, call.threads as usize);
        for r in first..last {
            let token = *step.token_ids.add(r) as usize;
            let panel = call.weights[0].add(token / PANEL_ROWS * PANEL_BYTES);
            let (row, x) = (token % PANEL_ROWS, call.outputs[0].add(r * WIDTH));
            for k in 0..WIDTH {
                *x.add(k) = if IS_Q6_K {
                    let (head, body, place) = place::<q6_k::Packed>(panel, row, k);
                    q6_k::Packed::weight(head, body, place, from_half)
                } else {
                    let (head, body, place) = place::<q4_k::Packed>(panel, row, k);
                    q4_k::Packed::weight(head, body, place, from_half)
                };
            }
        }
    }
}

/// Head and body of input `k`; its block in the head, its row, its number in the block.
fn place<L: Layout>(panel: *const u8, row: usize, k: usize) -> (*const u8, *const u8, (usize, usize, usize)) {
    let (number, block) = (k / L::STORED_INPUTS, k % L::STORED_INPUTS / BLOCK);
    let head = Panel::<L, WIDTH>::head(panel, number);
    (head, Panel::<L, WIDTH>::body(panel, number, block), (block, row, k % BLOCK))
}
