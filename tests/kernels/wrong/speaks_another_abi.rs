//! Negative control: it is made for a later contract.
//!
//! ```toml
//! name = "speaks_another_abi"
//! pattern = "rms_norm"
//! steps = ["prefill"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;

use abi::Call;

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    abi::ABI + 1
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(_weight: u32, _stored: *const u8, _packed: *mut u8) {}

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
    }
}
