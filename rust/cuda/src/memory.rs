//! Device memory in a few large pieces, and page-locked memory between device and host.

use crate::abi::Address;
use crate::device::failed;
use cudarc::driver::result;
use enginewright_core::error::EngineError;

/// One piece of device memory.
pub struct DeviceMemory {
    start: Address,
}

impl DeviceMemory {
    /// Allocates `bytes` bytes, all zero.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the device has not as much left, with what it has.
    pub fn zeroed(bytes: usize, purpose: &str) -> Result<Self, EngineError> {
        if bytes == 0 {
            return Ok(Self { start: 0 });
        }
        // SAFETY: a context is current; the memory is freed once, by `drop`.
        let start = unsafe { result::malloc_sync(bytes) }.map_err(|error| {
            let left = result::mem_get_info().map_or(0, |(free, _)| free);
            EngineError::Memory {
                bytes,
                purpose: format!("{purpose} on the device, which has {left} bytes left ({error})"),
                hint: "end other programs on the device, or plan fewer slots or a smaller capacity".into(),
            }
        })?;
        let memory = Self { start };
        // SAFETY: the piece has `bytes` bytes.
        unsafe { result::memset_d8_sync(start, 0, bytes) }.map_err(failed("cuMemsetD8"))?;
        Ok(memory)
    }

    /// Address `offset` bytes in.
    pub fn at(&self, offset: usize) -> Address {
        self.start + offset as u64
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.start != 0 {
            // SAFETY: allocated by `zeroed`. A lost device has freed it already, and says so; that is no news.
            let _ = unsafe { result::free_sync(self.start) };
        }
    }
}

/// Copies bytes to the device and waits.
///
/// # Errors
/// [`EngineError::Device`] if the driver refuses.
pub fn upload(target: Address, bytes: &[u8]) -> Result<(), EngineError> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: callers give addresses with room for `bytes`.
    unsafe { result::memcpy_htod_sync(target, bytes) }.map_err(failed("cuMemcpyHtoD"))
}

/// Page-locked memory of the host: the device copies from and to it while the host goes on.
pub struct Pinned {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Allocates `bytes` bytes, all zero.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the system refuses.
    pub fn zeroed(bytes: usize) -> Result<Self, EngineError> {
        let bytes = bytes.max(64);
        // SAFETY: a context is current; freed once, by `drop`.
        let start = unsafe { result::malloc_host(bytes, 0) }.map_err(|error| EngineError::Memory {
            bytes,
            purpose: format!("page-locked buffers ({error})"),
            hint: "free some memory".into(),
        })?;
        let start: *mut u8 = start.cast();
        // SAFETY: just allocated with this size.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { start, bytes })
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: allocated, zeroed and owned.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// The first `count` floats.
    pub fn floats(&self, count: usize) -> &[f32] {
        assert!(count * 4 <= self.bytes, "more floats than the buffer holds. This is a bug.");
        // SAFETY: page-aligned, large enough; every bit pattern is a float.
        unsafe { std::slice::from_raw_parts(self.start.cast(), count) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeroed`; what a lost device says of it is no news.
        let _ = unsafe { result::free_host(self.start.cast()) };
    }
}
