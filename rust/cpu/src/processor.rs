//! What the processor can do, under the names of `/proc/cpuinfo`.

use enginewright_core::error::EngineError;
use std::collections::BTreeSet;

/// The features of this processor.
///
/// # Errors
/// [`EngineError::File`] if the system does not say.
pub fn features() -> Result<BTreeSet<String>, EngineError> {
    let path = "/proc/cpuinfo";
    let text = std::fs::read_to_string(path).map_err(|error| EngineError::File {
        path: path.into(),
        reason: error.to_string(),
        hint: "engines for CPUs run on Linux; is /proc mounted?".into(),
    })?;
    Ok(parse_features(&text))
}

/// Features of the first processor listed: `flags` on x86, `Features` on ARM.
fn parse_features(text: &str) -> BTreeSet<String> {
    let line = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let words = line.and_then(|line| line.split_once(':')).map_or("", |(_, words)| words);
    words.split_whitespace().map(str::to_owned).collect()
}

/// Name of the processor, as the system gives it.
pub fn model_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// Refuses a plan whose kernels would stop at an illegal instruction.
///
/// # Errors
/// [`EngineError::Processor`] naming all that is missing.
pub fn require(required: &[String], present: &BTreeSet<String>) -> Result<(), EngineError> {
    let missing: Vec<&str> =
        required.iter().filter(|name| !present.contains(*name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(EngineError::Processor {
        missing: missing.join(", "),
        hint: "build the engine on this machine, or run it on one like that it was built for".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_either_spelling() {
        let x86 = parse_features("processor : 0\nflags\t\t: fpu avx2 fma\nbugs : x\n");
        assert!(x86.contains("avx2") && x86.len() == 3);
        assert!(parse_features("Features\t: fp asimd sve\n").contains("asimd"));
        assert!(parse_features("nothing here").is_empty());
    }

    #[test]
    fn a_processor_that_lacks_features_is_refused_with_all_their_names() {
        let present = BTreeSet::from(["avx2".to_string()]);
        let required = ["avx2", "avx9000", "telepathy"].map(String::from);
        let error = require(&required, &present).unwrap_err().to_string();
        assert!(error.contains("avx9000, telepathy") && error.contains("hint:"), "{error}");
        assert!(require(&required[..1], &present).is_ok());
    }
}
