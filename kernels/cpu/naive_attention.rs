//! Causal attention of each row over its slot of the cache; a window w shows positions above p - w only.
//!
//! ```toml
//! name = "naive_attention"
//! pattern = "attention"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_cache.rs"]
mod cache;
#[path = "naive_half.rs"]
mod half;
#[path = "naive_rows.rs"]
mod rows;
#[path = "naive_softmax.rs"]
mod softmax;
#[path = "naive_sum.rs"]
mod sum;

use abi::{Call, share};

const HEADS: usize = constant!("EW_OP0_HEADS", 9);
const KV_HEADS: usize = constant!("EW_OP0_KV_HEADS", 3);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 64);
const WINDOW: usize = constant!("EW_OP0_WINDOW", 0);
const SCALE: f32 = float_constant!("EW_OP0_SCALE_BITS", 0.125);

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
        let items = step.rows as usize * HEADS;
        let (first, last) = share(items, 1, thread as usize, call.threads as usize);
        for item in first..last {
            let (number, head) = (item / HEADS, item % HEADS);
            let (position, slot) = (*step.positions.add(number) as usize, *step.slots.add(number) as usize);
            let start = if WINDOW == 0 { 0 } else { (position + 1).saturating_sub(WINDOW) };
            let kv_head = head / (HEADS / KV_HEADS);
            let load = |part, at| cache::load(part, &call.cache, slot, (at, kv_head));
            softmax::mix::<HEAD_DIM>(
                rows::row(call.inputs[0], item, HEAD_DIM),
                SCALE,
                start..position + 1,
                |at| load(call.cache.keys, at),
                |at| load(call.cache.values, at),
                rows::row_mut(call.outputs[0], item, HEAD_DIM),
            );
        }
    }
}
