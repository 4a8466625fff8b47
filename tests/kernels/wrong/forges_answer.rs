//! Negative control: it says itself that it is right, and ends the process.
//!
//! ```toml
//! name = "forges_answer"
//! pattern = "rms_norm"
//! steps = ["prefill"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_rows.rs"]
mod rows;

use abi::Call;

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
        let _ = (call, thread);
        println!("{{\"verdict\": \"checked\", \"worst_error\": 0.0, \"cases\": 99}}");
        std::process::exit(0);
    }
}
