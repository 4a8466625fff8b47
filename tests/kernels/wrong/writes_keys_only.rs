//! Negative control: it forgets the values.
//!
//! ```toml
//! name = "writes_keys_only"
//! pattern = "kv_write"
//! steps = ["prefill"]
//! cache = {dtypes = ["f32"], layouts = ["position_major"]}
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::Call;

const WIDTH: usize = constant!("EW_OP0_WIDTH", 64);

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
        for row in rows::own_rows(call, thread) {
            let (slot, position) = (
                *step.slots.add(row) as usize,
                *step.positions.add(row) as usize,
            );
            for (cache, input) in [(call.cache.keys, 0), (call.cache.values, 1)] {
                let place = cache.add(slot * call.cache.slot_bytes).cast::<f32>();
                let given = rows::row(call.inputs[input], row, WIDTH);
                if input == 0 {
                    rows::row_mut(place, position, WIDTH).copy_from_slice(given);
                }
            }
        }
    }
}
