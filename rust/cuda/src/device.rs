//! The driver, one device and its stream; errors of the driver as values.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use enginewright_core::error::EngineError;

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    pub name: String,
    /// Compute capability, as 90 for 9.0.
    pub capability: u32,
    pub memory_bytes: usize,
    pub multiprocessors: u32,
    /// Version of the driver's CUDA, as 13000 for 13.0.
    pub driver: u32,
}

/// A device with a context and a stream of its own.
pub struct Device {
    facts: DeviceFacts,
    handle: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
}

// SAFETY: handles of the driver may be used from any thread that makes the context current, as `enter` does.
unsafe impl Send for Device {}

impl Device {
    /// Opens device `ordinal`.
    ///
    /// # Errors
    /// [`EngineError::Device`] if there is no driver or no such device.
    pub fn open(ordinal: i32) -> Result<Self, EngineError> {
        let missing = |reason: String| EngineError::Device {
            call: "open".into(),
            reason,
            hint: "this engine's plan is for an NVIDIA GPU: run it where there is one, or build a CPU engine"
                .into(),
        };
        // SAFETY: looks for the library, calls nothing in it.
        if !unsafe { sys::is_culib_present() } {
            return Err(missing("there is no CUDA driver (libcuda) on this machine".into()));
        }
        result::init().map_err(|error| missing(format!("the CUDA driver does not start: {error}")))?;
        let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
        if ordinal >= count {
            return Err(missing(format!("device {ordinal} of {count}")));
        }
        let handle = result::device::get(ordinal).map_err(failed("cuDeviceGet"))?;
        let facts = facts(handle)?;
        // SAFETY: `handle` is a device; the context is released when the device is dropped.
        let context =
            unsafe { result::primary_ctx::retain(handle) }.map_err(failed("cuDevicePrimaryCtxRetain"))?;
        // SAFETY: the context was just retained.
        unsafe { result::ctx::set_current(context) }.map_err(failed("cuCtxSetCurrent"))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(failed("cuStreamCreate"))?;
        Ok(Self { facts, handle, context, stream })
    }

    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Makes this device the calling thread's.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the driver refuses.
    pub fn enter(&self) -> Result<(), EngineError> {
        // SAFETY: the context lives as long as the device.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("cuCtxSetCurrent"))
    }

    /// Waits until everything on the stream is done.
    ///
    /// # Errors
    /// [`EngineError::Device`] if anything before failed: the device is lost to this process.
    pub fn wait(&self) -> Result<(), EngineError> {
        // SAFETY: the stream lives as long as the device.
        unsafe { result::stream::synchronize(self.stream) }.map_err(failed("cuStreamSynchronize"))
    }

    /// Checks the plan's `requires`, as `sm_90`: the capability that its cubins were compiled for.
    ///
    /// # Errors
    /// [`EngineError::Processor`] naming what this device is not.
    pub fn require(&self, requires: &[String]) -> Result<(), EngineError> {
        let own = format!("sm_{}", self.facts.capability);
        match requires.iter().find(|name| name.trim_end_matches('a') != own) {
            None => Ok(()),
            Some(other) => Err(EngineError::Processor {
                missing: other.clone(),
                hint: format!(
                    "{} is {own}: build the engine again for it; code for one chip does not run on another",
                    self.facts.name
                ),
            }),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: created by `open`, released once. A device that failed refuses; there is nothing left to do then.
        unsafe {
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.handle);
        }
    }
}

fn facts(handle: sys::CUdevice) -> Result<DeviceFacts, EngineError> {
    use sys::CUdevice_attribute as Attribute;
    let attribute = |which| {
        // SAFETY: `handle` is a device.
        let value = unsafe { result::device::get_attribute(handle, which) };
        value.map(|value| value as u32).map_err(failed("cuDeviceGetAttribute"))
    };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let mut driver = 0;
    // SAFETY: writes one number.
    unsafe { sys::cuDriverGetVersion(&raw mut driver) }.result().map_err(failed("cuDriverGetVersion"))?;
    Ok(DeviceFacts {
        name: result::device::get_name(handle).map_err(failed("cuDeviceGetName"))?,
        capability: major * 10 + minor,
        // SAFETY: `handle` is a device.
        memory_bytes: unsafe { result::device::total_mem(handle) }.map_err(failed("cuDeviceTotalMem"))?,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        driver: driver as u32,
    })
}

/// Turns what the driver says of `call` into an error.
pub fn failed(call: &'static str) -> impl Fn(DriverError) -> EngineError {
    move |error| EngineError::Device {
        call: call.into(),
        reason: error.to_string(),
        hint: "the device may be lost or used up by another program: see nvidia-smi, then start again".into(),
    }
}
