//! Puts k and v of each row at its place in the cache: exact in f32, rounded to nearest in f16.
//!
//! ```toml
//! name = "naive_kv_write"
//! pattern = "kv_write"
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

use abi::Call;
use rows::{own_rows, row};

const KV_HEADS: usize = constant!("EW_OP0_KV_HEADS", 3);
const HEAD_DIM: usize = constant!("EW_OP0_HEAD_DIM", 64);

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
        for number in own_rows(call, thread) {
            let (position, slot) = (*step.positions.add(number) as usize, *step.slots.add(number) as usize);
            for (input, part) in [(0, call.cache.keys), (1, call.cache.values)] {
                let heads = row(call.inputs[input], number, KV_HEADS * HEAD_DIM);
                for (head, values) in heads.chunks_exact(HEAD_DIM).enumerate() {
                    cache::store(part, &call.cache, slot, (position, head), values);
                }
            }
        }
    }
}
