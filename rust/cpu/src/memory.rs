//! Anonymous memory: zero until written, and resident only where it was touched.

use enginewright_core::arena::ALIGNMENT;
use enginewright_core::error::EngineError;
use memmap2::{Advice, MmapMut, MmapOptions};

/// Size of a huge page in bytes.
const HUGE_PAGE: usize = 2 << 20;

/// How a region will be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Written whole and read often: 2 MiB pages save address translation.
    Huge,
    /// Written whole: whatever the system does by default.
    Default,
    /// Touched in part: small pages, so that untouched parts cost nothing.
    Sparse,
}

/// One zeroed region, 64-byte aligned.
pub struct Region {
    map: Option<MmapMut>,
    offset: usize,
}

impl Region {
    /// Reserves `bytes` bytes; nothing is resident yet.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the system refuses.
    pub fn reserve(bytes: usize, pages: Pages, purpose: &str) -> Result<Self, EngineError> {
        if bytes == 0 {
            return Ok(Self { map: None, offset: 0 });
        }
        let refuse = || EngineError::Memory {
            bytes,
            purpose: purpose.into(),
            hint: "free memory, raise the limit (ulimit -v, container), or plan fewer slots or positions"
                .into(),
        };
        let slack = if pages == Pages::Huge { HUGE_PAGE } else { 0 };
        let length = bytes.checked_add(slack).ok_or_else(refuse)?;
        let map = MmapOptions::new().len(length).no_reserve_swap().map_anon().map_err(|_| refuse())?;
        // Advice may be refused (no such kernel option); the memory works all the same.
        #[cfg(target_os = "linux")]
        let _ = match pages {
            Pages::Huge => map.advise(Advice::HugePage),
            Pages::Sparse => map.advise(Advice::NoHugePage),
            Pages::Default => Ok(()),
        };
        let offset = if pages == Pages::Huge { map.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        Ok(Self { map: Some(map), offset })
    }

    /// First byte. Dangling but aligned when the region is empty.
    pub fn start(&mut self) -> *mut u8 {
        match &mut self.map {
            Some(map) => map.as_mut_ptr().wrapping_add(self.offset),
            None => std::ptr::without_provenance_mut(ALIGNMENT),
        }
    }
}
