//! What a program may see and use.

use anyhow::{Context, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How much must hold; less than asked is an error, never a silent step down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces, a root of its own, seccomp and limits; Landlock where the kernel has it.
    Strong,
    /// Limits, seccomp and no new privileges: files and other processes of the same user stay in reach.
    Weak,
}

/// One policy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub level: Level,
    /// Files and folders that it may read and execute, by their own names; those that do not exist are left out.
    pub read_only: Vec<PathBuf>,
    /// Files and folders that it may write; where root runs it as nobody, they become nobody's.
    #[serde(default)]
    pub writable: Vec<PathBuf>,
    /// Its whole environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// File descriptors besides 0, 1 and 2 that it gets.
    #[serde(default)]
    pub keep_fds: Vec<i32>,
    /// Where it starts; the root if absent.
    pub working_folder: Option<PathBuf>,
    /// Memory of the whole tree where a control group can be had, else of each process.
    pub memory_bytes: Option<u64>,
    /// Most processes and threads.
    pub processes: u64,
    /// Largest file.
    pub file_bytes: u64,
    /// Processor time of each process.
    pub cpu_seconds: Option<u64>,
    /// Size of its /tmp.
    #[serde(default = "default_temporary_bytes")]
    pub temporary_bytes: u64,
}

fn default_temporary_bytes() -> u64 {
    64 << 20
}

impl Policy {
    /// Reads and checks a policy: JSON itself, or the name of a file of it.
    ///
    /// # Errors
    /// If the file cannot be read, or says what cannot be.
    pub fn read(given: &str) -> anyhow::Result<Self> {
        if given.trim_start().starts_with('{') {
            return Self::from_text(given).context("--policy");
        }
        let text = std::fs::read_to_string(given).with_context(|| format!("cannot read {given}"))?;
        Self::from_text(&text).with_context(|| format!("{given}: no policy"))
    }

    fn from_text(text: &str) -> anyhow::Result<Self> {
        let policy: Self = serde_json::from_str(text)?;
        for path in policy.read_only.iter().chain(&policy.writable).chain(&policy.working_folder) {
            let is_plain = path.is_absolute() && !path.components().any(|part| part.as_os_str() == "..");
            ensure!(is_plain, "path `{}`; expected an absolute one without `..`", path.display());
        }
        ensure!(
            policy.keep_fds.iter().all(|&fd| fd > 2),
            "keep_fds {:?}; expected 3 and above",
            policy.keep_fds
        );
        ensure!(policy.processes > 0, "processes is 0; expected 1 or more");
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Policy};

    const PLAIN: &str = r#"{"level": "strong", "read_only": ["/usr"], "processes": 8, "file_bytes": 1024}"#;

    #[test]
    fn a_plain_policy_is_read() {
        let policy = Policy::from_text(PLAIN).unwrap();
        assert_eq!(policy.level, Level::Strong);
        assert_eq!(policy.temporary_bytes, 64 << 20);
        assert!(policy.environment.is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (from, to, expected) in [
            ("/usr", "usr", "absolute"),
            ("/usr", "/usr/../etc", "without `..`"),
            ("\"strong\"", "\"some\"", "unknown variant"),
            ("\"processes\": 8", "\"processes\": 0", "1 or more"),
            ("\"processes\"", "\"proceses\"", "unknown field"),
        ] {
            let error = format!("{:#}", Policy::from_text(&PLAIN.replace(from, to)).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
