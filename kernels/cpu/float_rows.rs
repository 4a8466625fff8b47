//! What the host calls in a kernel that works row by row: one phase, no scratch, weights as stored.
//!
//! The kernel has a module `work` that says how many rows there are and what one of them needs.

use crate::abi::{ABI, Call, share};
use crate::work;

#[unsafe(no_mangle)]
pub extern "C" fn ew_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_phases() -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, _threads: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ew_packed_bytes(_weight: u32) -> usize {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_pack(_weight: u32, _stored: *const u8, _packed: *mut u8) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let (first, last) = share(work::rows(call), 1, thread as usize, call.threads as usize);
        for row in first..last {
            work::run(call, row);
        }
    }
}
