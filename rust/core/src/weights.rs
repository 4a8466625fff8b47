//! The checkpoint's files, mapped into memory: pages come from disk when first read and can be let go again.

use crate::error::EngineError;
use crate::graph::{Graph, Weight};
use memmap2::{Mmap, UncheckedAdvice};
use std::fs::File;
use std::path::Path;

/// The open files of a checkpoint, in the order of `graph.files`.
pub struct Checkpoint {
    files: Vec<Source>,
}

enum Source {
    Mapped(Mmap),
    /// Linked into the program.
    Embedded(&'static [u8]),
}

impl Source {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Embedded(bytes) => bytes,
        }
    }
}

impl Checkpoint {
    /// Maps every file that the graph names, under `folder`.
    ///
    /// # Errors
    /// [`EngineError::File`] if one is missing or unreadable, [`EngineError::Invalid`] if its size is not the
    /// graph's: the offsets would point at something else.
    pub fn open(folder: &Path, graph: &Graph) -> Result<Self, EngineError> {
        let mut files = Vec::with_capacity(graph.files.len());
        for described in &graph.files {
            let path = folder.join(&described.path);
            let refuse = |error: std::io::Error| EngineError::File {
                path: path.display().to_string(),
                reason: error.to_string(),
                hint: "name the folder that holds the checkpoint's files with --checkpoint".into(),
            };
            let file = File::open(&path).map_err(refuse)?;
            let found = file.metadata().map_err(refuse)?.len();
            check_size(&path.display().to_string(), found, described.bytes)?;
            if found == 0 {
                files.push(Source::Embedded(&[]));
                continue;
            }
            // SAFETY: the map is read-only. Like every engine that maps weights, we rely on nobody cutting the
            // file while it is served; a rewrite would change values, not memory safety.
            files.push(Source::Mapped(unsafe { Mmap::map(&file) }.map_err(refuse)?));
        }
        Ok(Self { files })
    }

    /// Uses files that are linked into the program, in the order of `graph.files`.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] if their number or sizes are not the graph's.
    pub fn embedded(contents: &[&'static [u8]], graph: &Graph) -> Result<Self, EngineError> {
        check_size("embedded weights (number of files)", contents.len() as u64, graph.files.len() as u64)?;
        for (bytes, described) in contents.iter().zip(&graph.files) {
            check_size(&described.path, bytes.len() as u64, described.bytes)?;
        }
        Ok(Self { files: contents.iter().map(|bytes| Source::Embedded(bytes)).collect() })
    }

    /// The stored bytes of a weight of a checked graph.
    pub fn bytes(&self, weight: &Weight) -> &[u8] {
        let start = weight.offset as usize;
        &self.files[weight.file].bytes()[start..start + weight.bytes as usize]
    }

    /// Lets go of the pages of the file that holds `weight`; a later read brings them back. The whole file, because
    /// reading one weight may map a huge page with its neighbours.
    pub fn release(&self, weight: &Weight) {
        if let Source::Mapped(map) = &self.files[weight.file] {
            // SAFETY: a shared read-only map of a file: dropped pages are read from the file again. The outcome is
            // ignored on purpose, it is advice.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

fn check_size(path: &str, found: u64, expected: u64) -> Result<(), EngineError> {
    if found == expected {
        return Ok(());
    }
    Err(EngineError::Invalid {
        path: path.into(),
        field: "size".into(),
        value: found.to_string(),
        expected: format!("{expected}, as graph.json says"),
        hint: "the file was cut or belongs to another checkpoint; fetch it again or rebuild the engine"
            .into(),
    })
}
