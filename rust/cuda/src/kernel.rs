//! Cubins of an engine's folder.

use crate::abi::{ABI, Info, MAX_PHASES};
use crate::device::failed;
use cudarc::driver::{result, sys};
use enginewright_core::error::EngineError;
use std::ffi::CString;
use std::path::Path;

/// A loaded cubin that keeps the contract.
pub struct Kernel {
    pub info: Info,
    /// One for each phase.
    pub phases: Vec<sys::CUfunction>,
    /// Packs weights; there if any weight is packed.
    pub pack: Option<sys::CUfunction>,
    module: sys::CUmodule,
}

// SAFETY: handles of the driver, used by whoever made the context current.
unsafe impl Send for Kernel {}

/// Most threads of a block on any device.
const MOST_THREADS: u32 = 1024;
/// Shared memory that a block has without asking.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

impl Kernel {
    /// Loads `<object>.cubin` from `folder`; `kernel` is its name in messages.
    ///
    /// # Errors
    /// [`EngineError::Kernel`] if it is missing, is for another chip, lacks a symbol or speaks another version.
    pub fn load(folder: &Path, object: &str, kernel: &str) -> Result<Self, EngineError> {
        let refuse = |reason: String| EngineError::Kernel {
            kernel: format!("{kernel} ({object})"),
            reason,
            hint: "build the engine again for this device, with this version".into(),
        };
        let path = folder.join(format!("{object}.cubin"));
        let image = std::fs::read(&path)
            .map_err(|error| refuse(format!("cannot read {}: {error}", path.display())))?;
        if !image.starts_with(b"\x7fELF") {
            return Err(refuse(format!("{} is no cubin", path.display())));
        }
        // SAFETY: an ELF image that outlives the call; the driver checks the rest.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(|error| refuse(format!("the driver does not load {}: {error}", path.display())))?;
        let mut loaded = Self { info: Info::default(), phases: Vec::new(), pack: None, module };
        loaded.info = loaded.read_info().map_err(refuse)?;
        loaded.check().map_err(refuse)?;
        for phase in 0..loaded.info.phases as usize {
            let function = loaded.function(&format!("ew_phase{phase}")).map_err(refuse)?;
            let shared = loaded.info.phase[phase].shared_bytes;
            if shared > DEFAULT_SHARED_BYTES {
                let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: the function is of a loaded module.
                unsafe { result::function::set_function_attribute(function, attribute, shared as i32) }
                    .map_err(|error| {
                        refuse(format!("phase {phase} asks for {shared} shared bytes: {error}"))
                    })?;
            }
            loaded.phases.push(function);
        }
        if loaded.info.packed_bytes.iter().any(|&bytes| bytes > 0) {
            loaded.pack = Some(loaded.function("ew_pack").map_err(refuse)?);
        }
        Ok(loaded)
    }

    fn read_info(&self) -> Result<Info, String> {
        let name = CString::from(c"ew_info");
        // SAFETY: the module is loaded.
        let (address, bytes) = unsafe { result::module::get_global(self.module, name) }
            .map_err(|error| format!("lacks `ew_info`: {error}"))?;
        if bytes != size_of::<Info>() {
            return Err(format!("`ew_info` has {bytes} bytes; this host reads {}", size_of::<Info>()));
        }
        let mut info = [Info::default()];
        // SAFETY: the global has exactly this size, and every bit pattern is an `Info`.
        unsafe { result::memcpy_dtoh_sync(&mut info, address) }
            .map_err(|error| format!("`ew_info`: {error}"))?;
        Ok(info[0])
    }

    fn check(&self) -> Result<(), String> {
        let info = &self.info;
        if info.abi != ABI {
            return Err(format!("speaks version {} of the kernel contract, this host {ABI}", info.abi));
        }
        if !(1..=MAX_PHASES as u32).contains(&info.phases) {
            return Err(format!("has {} phases; expected 1 to {MAX_PHASES}", info.phases));
        }
        for (number, phase) in info.phase.iter().take(info.phases as usize).enumerate() {
            if !(1..=MOST_THREADS).contains(&phase.threads) || phase.blocks == 0 {
                let (threads, blocks) = (phase.threads, phase.blocks);
                return Err(format!("phase {number} wants {blocks} blocks of {threads} threads"));
            }
        }
        Ok(())
    }

    fn function(&self, name: &str) -> Result<sys::CUfunction, String> {
        let symbol = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the module is loaded.
        unsafe { result::module::get_function(self.module, symbol) }
            .map_err(|error| format!("lacks `{name}`: {error}"))
    }

    /// Packs weight `weight` from `stored` to `packed`, both on the device, on `stream`.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the launch is refused.
    pub fn pack(
        &self,
        weight: u32,
        stored: u64,
        packed: u64,
        stream: sys::CUstream,
    ) -> Result<(), EngineError> {
        let Some(function) = self.pack else { return Ok(()) };
        let (mut weight, mut stored, mut packed) = (weight, stored, packed);
        let mut arguments = [(&raw mut weight).cast(), (&raw mut stored).cast(), (&raw mut packed).cast()];
        let (blocks, threads) = (self.info.pack_blocks.max(1), self.info.pack_threads.clamp(1, MOST_THREADS));
        // SAFETY: the arguments are those of the contract, and are copied by the call.
        unsafe { result::launch_kernel(function, (blocks, 1, 1), (threads, 1, 1), 0, stream, &mut arguments) }
            .map_err(failed("cuLaunchKernel (pack)"))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: loaded by `load`, unloaded once.
        let _ = unsafe { result::module::unload(self.module) };
    }
}
