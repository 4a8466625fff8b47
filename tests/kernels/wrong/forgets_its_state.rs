//! Negative control: a convolution that leaves the state as it was.
//!
//! ```toml
//! name = "forgets_its_state"
//! pattern = "causal_conv"
//! rows = ["tokens"]
//! steps = ["prefill", "decode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::{Call, share};

const WIDTH: usize = constant!("EW_OP0_WIDTH", 64);
const KERNEL: usize = constant!("EW_OP0_KERNEL", 4);
const BEFORE: usize = KERNEL - 1;

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
        let taps = call.weights[0].cast::<f32>();
        // Channels are shared out: each thread walks the rows of every segment in order.
        let (first, last) = share(WIDTH, 16, thread as usize, call.threads as usize);
        for segment in 0..step.segments as usize {
            let (start, end) = (*step.starts.add(segment) as usize, *step.starts.add(segment + 1) as usize);
            let slot = *step.slots.add(start) as usize;
            let state = call.state.start.add(slot * call.state.slot_bytes).cast::<f32>();
            let is_new = *step.positions.add(start) == 0;
            for channel in first..last {
                let mut window = [0.0; KERNEL];
                if !is_new {
                    for (i, value) in window[..BEFORE].iter_mut().enumerate() {
                        *value = *state.add(i * WIDTH + channel);
                    }
                }
                for row in start..end {
                    window[BEFORE] = *call.inputs[0].add(row * WIDTH + channel);
                    let mut sum = 0.0;
                    for (i, value) in window.iter().enumerate() {
                        sum += value * *taps.add(channel * KERNEL + i);
                    }
                    *call.outputs[0].add(row * WIDTH + channel) = sum / (1.0 + (-sum).exp());
                    window.copy_within(1.., 0);
                }
            }
        }
    }
}
