//! The gated delta rule of each value head, row after row over the state of the slot; float32.
//!
//! S <- exp(-exp(a_log) softplus(a + dt_bias)) S; S <- S + k (x) sigmoid(b) (v - S^T k); o = S^T q. Queries and keys
//! become x / sqrt(sum of squares + epsilon), queries also / sqrt(KEY_DIM). The state is [VALUE_HEADS, KEY_DIM,
//! VALUE_DIM]; a sequence starts at position 0 with zeros.
//!
//! ```toml
//! name = "naive_delta_rule"
//! pattern = "delta_rule"
//! rows = ["tokens"]
//! steps = ["prefill", "decode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;
#[path = "naive_sum.rs"]
mod sum;

use abi::{Call, share};
use rows::{row, row_mut};
use sum::{dot, multiply_add};

const KEY_HEADS: usize = constant!("EW_OP0_KEY_HEADS", 2);
const VALUE_HEADS: usize = constant!("EW_OP0_VALUE_HEADS", 4);
const KEY_DIM: usize = constant!("EW_OP0_KEY_DIM", 64);
const VALUE_DIM: usize = constant!("EW_OP0_VALUE_DIM", 64);
const EPSILON: f32 = float_constant!("EW_OP0_EPSILON_BITS", 1e-6);
const KEYS: usize = KEY_HEADS * KEY_DIM;
const MIXED: usize = 2 * KEYS + VALUE_HEADS * VALUE_DIM;

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
        // Heads are shared out: each thread walks the rows of every segment in order.
        let (first, last) = share(VALUE_HEADS, 1, thread as usize, call.threads as usize);
        for segment in 0..step.segments as usize {
            let (start, end) = (*step.starts.add(segment) as usize, *step.starts.add(segment + 1) as usize);
            let slot = *step.slots.add(start) as usize;
            let states = call.state.start.add(slot * call.state.slot_bytes).cast::<f32>();
            for head in first..last {
                let state = row_mut(states, head, KEY_DIM * VALUE_DIM);
                if *step.positions.add(start) == 0 {
                    state.fill(0.0);
                }
                for number in start..end {
                    advance(call, number, head, state);
                }
            }
        }
    }
}

/// One row of one head.
unsafe fn advance(call: &Call, number: usize, head: usize, state: &mut [f32]) {
    unsafe {
        let mixed = row(call.inputs[0], number, MIXED);
        let key_head = head / (VALUE_HEADS / KEY_HEADS);
        let (q, k) =
            (&mixed[key_head * KEY_DIM..][..KEY_DIM], &mixed[KEYS + key_head * KEY_DIM..][..KEY_DIM]);
        let v = &mixed[2 * KEYS + head * VALUE_DIM..][..VALUE_DIM];
        let q_factor = 1.0 / ((dot(q, q) + EPSILON) * KEY_DIM as f32).sqrt();
        let k_factor = 1.0 / (dot(k, k) + EPSILON).sqrt();
        let parameter = |weight: usize| *call.weights[weight].cast::<f32>().add(head);
        let gate = |input: usize| *call.inputs[input].add(number * VALUE_HEADS + head);
        let beta = 1.0 / (1.0 + (-gate(1)).exp());
        let decay = (-parameter(0).exp() * softplus(gate(2) + parameter(1))).exp();
        let mut known = [0.0; VALUE_DIM];
        for (held, k) in state.chunks_exact_mut(VALUE_DIM).zip(k) {
            for (held, known) in held.iter_mut().zip(&mut known) {
                *held *= decay;
                *known = multiply_add(*held, k * k_factor, *known);
            }
        }
        let mut delta = [0.0; VALUE_DIM];
        for i in 0..VALUE_DIM {
            delta[i] = beta * (v[i] - known[i]);
        }
        let o = row_mut(call.outputs[0], number * VALUE_HEADS + head, VALUE_DIM);
        o.fill(0.0);
        for ((held, k), q) in state.chunks_exact_mut(VALUE_DIM).zip(k).zip(q) {
            for i in 0..VALUE_DIM {
                held[i] = multiply_add(k * k_factor, delta[i], held[i]);
                o[i] = multiply_add(held[i], q * q_factor, o[i]);
            }
        }
    }
}

/// ln(1 + exp(x)), exact to rounding for large and small x.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
