//! Reads one JSON file of an engine and says precisely where it is wrong.

use crate::error::EngineError;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Largest description that is read: a graph of a very deep model takes a few MB.
const MOST_BYTES: u64 = 256 << 20;

/// The text of a file of the engine.
///
/// # Errors
/// [`EngineError::File`] if it is missing, unreadable, implausibly large or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, EngineError> {
    let refuse = |reason: String| EngineError::File {
        path: path.display().to_string(),
        reason,
        hint: "name a folder that `enginewright build` made".into(),
    };
    let metadata = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?;
    if metadata.len() > MOST_BYTES {
        return Err(refuse(format!("{} bytes are more than the {MOST_BYTES} allowed", metadata.len())));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))
}

/// Parses `text`, which came from `path` (used in messages only).
///
/// # Errors
/// [`EngineError::Invalid`] with line and column.
pub fn parse<T: DeserializeOwned>(path: &str, text: &str, kind: &str) -> Result<T, EngineError> {
    serde_json::from_str(text).map_err(|error| EngineError::Invalid {
        path: path.into(),
        field: format!("line {}, column {}", error.line(), error.column()),
        value: error.to_string(),
        expected: format!("a {kind} as docs/architecture.md describes it"),
        hint: "the file was cut, edited by hand or made by another version; build the engine again".into(),
    })
}

/// Where a value that cannot be stands; turns into [`EngineError::Invalid`].
pub struct Place<'a> {
    pub path: &'a str,
    pub hint: &'a str,
}

impl Place<'_> {
    /// The error for one field.
    pub fn invalid(
        &self,
        field: impl Into<String>,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> EngineError {
        EngineError::Invalid {
            path: self.path.into(),
            field: field.into(),
            value: value.to_string(),
            expected: expected.into(),
            hint: self.hint.into(),
        }
    }
}
