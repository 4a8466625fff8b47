//! Attention of each row over its whole segment, both ways.
//!
//! ```toml
//! name = "naive_self_attention"
//! pattern = "self_attention"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;
#[path = "naive_softmax.rs"]
mod softmax;
#[path = "naive_sum.rs"]
mod sum;

use abi::{Call, share};

const HEADS: usize = constant!("EW_OP0_HEADS", 12);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 32);
const SCALE: f32 = float_constant!("EW_OP0_SCALE_BITS", 0.176_776_7);

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, _threads: u32) -> usize {
    0
}

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let step = &*call.step;
        let starts = core::slice::from_raw_parts(step.starts, step.segments as usize + 1);
        let (first, last) = share(step.rows as usize, 1, thread as usize, call.threads as usize);
        for segment in starts.windows(2) {
            let (start, end) = (segment[0] as usize, segment[1] as usize);
            for number in start.max(first)..end.min(last) {
                for head in 0..HEADS {
                    attend(call, start..end, number, head);
                }
            }
        }
    }
}

unsafe fn attend(call: &Call, segment: core::ops::Range<usize>, number: usize, head: usize) {
    let load = |input: usize, row: usize| unsafe {
        *call.inputs[input].add((row * HEADS + head) * HEAD_DIM).cast::<[f32; HEAD_DIM]>()
    };
    let mixed = unsafe { rows::row_mut(call.outputs[0], number * HEADS + head, HEAD_DIM) };
    softmax::mix(&load(0, number), SCALE, segment, |row| load(1, row), |row| load(2, row), mixed);
}
