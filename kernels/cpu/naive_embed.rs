//! x = sum over the tables of one row each: of the token id, of the position plus an offset, of type 0; float32.
//!
//! ```toml
//! name = "naive_embed"
//! pattern = "embed"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! matrices = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q6_k"]
//! layout = "stored"
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_half.rs"]
mod half;
#[path = "naive_rows.rs"]
mod rows;
#[path = "naive_stored.rs"]
mod stored;

use abi::Call;
use rows::{own_rows, row_mut};
use stored::Stored;

const WIDTH: usize = constant!("EW_OP0_WIDTH", 576);
const TABLES: &str = text_constant!("EW_OP0_TABLES", "token");
const DTYPES: &str = text_constant!("EW_OP0_DTYPES", "f32");
const POSITION_OFFSET: usize = constant!("EW_OP0_POSITION_OFFSET", 0);
const ROW_BYTES: usize = (WIDTH * size_of::<f32>()).next_multiple_of(64);

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, threads: u32) -> usize {
    threads as usize * ROW_BYTES
}

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let step = &*call.step;
        let scratch = call.scratch.add(thread as usize * ROW_BYTES).cast::<f32>();
        let part = core::slice::from_raw_parts_mut(scratch, WIDTH);
        for row in own_rows(call, thread) {
            let sum = row_mut(call.outputs[0], row, WIDTH);
            for (number, (table, dtype)) in TABLES.split(' ').zip(DTYPES.split(' ')).enumerate() {
                let at = match table {
                    "token" => *step.token_ids.add(row) as usize,
                    "position" => *step.positions.add(row) as usize + POSITION_OFFSET,
                    _ => 0,
                };
                let stored = Stored::named(dtype);
                let bytes = stored.row_bytes(WIDTH);
                let from = core::slice::from_raw_parts(call.weights[number].add(at * bytes), bytes);
                stored.read(from, part);
                if number == 0 {
                    sum.copy_from_slice(part);
                } else {
                    sum.iter_mut().zip(&*part).for_each(|(sum, value)| *sum += value);
                }
            }
        }
    }
}
