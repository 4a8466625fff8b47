//! Kernel objects: shared libraries of an engine's folder, or functions linked into the program.

use crate::abi::{ABI, Call};
use enginewright_core::error::EngineError;
use libloading::{Library, Symbol};
use std::path::Path;

/// The functions that a kernel exports; see `kernels/cpu/abi.rs`.
#[derive(Debug, Clone, Copy)]
pub struct KernelTable {
    pub abi: extern "C" fn() -> u32,
    pub phases: extern "C" fn() -> u32,
    pub scratch: extern "C" fn(u32, u32) -> usize,
    pub packed_bytes: extern "C" fn(u32) -> usize,
    pub pack: unsafe extern "C" fn(u32, *const u8, *mut u8),
    pub run: unsafe extern "C" fn(*const Call, u32, u32),
}

/// Where kernels come from.
#[derive(Debug, Clone, Copy)]
pub enum KernelSource<'a> {
    /// A folder of `<object>.so`.
    Folder(&'a Path),
    /// Kernels linked into the program, by object hash.
    Linked(&'a [(&'a str, KernelTable)]),
}

/// A kernel that keeps the contract, with whatever keeps its code mapped.
pub struct Kernel {
    pub table: KernelTable,
    pub phases: u32,
    /// Never read: the functions of `table` live as long as it does.
    _library: Option<Library>,
}

/// Most phases that are believed; more is a broken object.
const MOST_PHASES: u32 = 64;

impl KernelSource<'_> {
    /// Loads the object called `object`; `kernel` is its name in messages.
    ///
    /// # Errors
    /// [`EngineError::Kernel`] if it is missing, lacks a symbol or speaks another version of the contract.
    pub fn load(&self, object: &str, kernel: &str) -> Result<Kernel, EngineError> {
        let refuse = |reason: String| EngineError::Kernel {
            kernel: format!("{kernel} ({object})"),
            reason,
            hint: "build the engine again on this machine, with this version".into(),
        };
        let (table, library) = match self {
            Self::Folder(folder) => {
                let path = folder.join(format!("{object}.so"));
                // SAFETY: kernels are plain `cdylib`s without initialisers. Whoever can put a file into an
                // engine's folder decides what it runs: that is what the folder is.
                let library = unsafe { Library::new(&path) }
                    .map_err(|error| refuse(format!("cannot load {}: {error}", path.display())))?;
                let table = symbols(&library).map_err(refuse)?;
                (table, Some(library))
            }
            Self::Linked(kernels) => {
                let found = kernels.iter().find(|(name, _)| *name == object);
                let (_, table) = found.ok_or_else(|| refuse("is not linked into this program".into()))?;
                (*table, None)
            }
        };
        let version = (table.abi)();
        if version != ABI {
            return Err(refuse(format!("speaks version {version} of the kernel contract, this host {ABI}")));
        }
        let phases = (table.phases)();
        if !(1..=MOST_PHASES).contains(&phases) {
            return Err(refuse(format!("has {phases} phases; expected 1 to {MOST_PHASES}")));
        }
        Ok(Kernel { table, phases, _library: library })
    }
}

fn symbols(library: &Library) -> Result<KernelTable, String> {
    fn get<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
        // SAFETY: the type is the one that the contract gives to `name`; `ew_abi` is checked before any other
        // function is called.
        let symbol: Result<Symbol<'_, T>, _> = unsafe { library.get(name) };
        symbol.map(|symbol| *symbol).map_err(|error| format!("lacks `{name}`: {error}"))
    }
    Ok(KernelTable {
        abi: get(library, "ew_abi")?,
        phases: get(library, "ew_phases")?,
        scratch: get(library, "ew_scratch")?,
        packed_bytes: get(library, "ew_packed_bytes")?,
        pack: get(library, "ew_pack")?,
        run: get(library, "ew_run")?,
    })
}
