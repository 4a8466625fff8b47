//! y = sum over experts e of gates[e] * down_e (silu(gate_e x) * up_e x); float32, matrices as stored. Experts whose gate
//! is zero are not read.
//!
//! ```toml
//! name = "naive_experts"
//! pattern = "experts"
//! matrices = ["f32", "f16", "bf16"]
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
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
#[path = "naive_sum.rs"]
mod sum;

use abi::Call;
use rows::{own_rows, row, row_mut};
use stored::Stored;
use sum::{dot, multiply_add};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 64);
const EXPERTS: usize = constant!("EW_OP0_EXPERTS", 8);
const INNER: usize = constant!("EW_OP0_INNER", 32);
const STORED: Stored = Stored::named(text_constant!("EW_OP0_DTYPE", "f32"));
/// A decoded row of any matrix.
const DECODED: usize = if WIDTH > INNER { WIDTH } else { INNER };
const SCRATCH_BYTES: usize = ((DECODED + INNER) * size_of::<f32>()).next_multiple_of(64);

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, threads: u32) -> usize {
    threads as usize * SCRATCH_BYTES
}

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let scratch = call.scratch.add(thread as usize * SCRATCH_BYTES).cast::<f32>();
        let decoded = core::slice::from_raw_parts_mut(scratch, DECODED);
        let inner = core::slice::from_raw_parts_mut(scratch.add(DECODED), INNER);
        for number in own_rows(call, thread) {
            let x = row(call.inputs[0], number, WIDTH);
            let y = row_mut(call.outputs[0], number, WIDTH);
            y.fill(0.0);
            for (expert, &weight) in row(call.inputs[1], number, EXPERTS).iter().enumerate() {
                if weight == 0.0 {
                    continue;
                }
                let matrix = |place: usize| *call.table.add(3 * expert + place);
                for (i, value) in inner.iter_mut().enumerate() {
                    let gate = dot(x, decode(matrix(0), i, &mut decoded[..WIDTH]));
                    let up = dot(x, decode(matrix(1), i, &mut decoded[..WIDTH]));
                    *value = gate / (1.0 + (-gate).exp()) * up;
                }
                for (i, y) in y.iter_mut().enumerate() {
                    *y = multiply_add(weight, dot(inner, decode(matrix(2), i, &mut decoded[..INNER])), *y);
                }
            }
        }
    }
}

/// Row `number` of a matrix, into `values`.
unsafe fn decode(matrix: *const u8, number: usize, values: &mut [f32]) -> &[f32] {
    let bytes = STORED.row_bytes(values.len());
    STORED.read(unsafe { core::slice::from_raw_parts(matrix.add(number * bytes), bytes) }, values);
    values
}
