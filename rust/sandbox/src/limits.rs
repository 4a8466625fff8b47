//! Limits of the kernel on what each process may use.

use crate::policy::Policy;
use anyhow::{Context, Result};
use nix::sys::resource::{Resource, setrlimit};

const OPEN_FILES: u64 = 1024;

/// Sets every limit of the policy. `memory_is_bounded`: a control group bounds the memory of the whole tree already.
///
/// # Errors
/// If the kernel refuses one.
pub fn set(policy: &Policy, memory_is_bounded: bool) -> Result<()> {
    let mut wanted = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, policy.file_bytes),
        (Resource::RLIMIT_NOFILE, OPEN_FILES),
        (Resource::RLIMIT_NPROC, policy.processes),
    ];
    wanted.extend(policy.cpu_seconds.map(|seconds| (Resource::RLIMIT_CPU, seconds)));
    if !memory_is_bounded {
        // Private writable memory: maps of weights are not counted.
        wanted.extend(policy.memory_bytes.map(|bytes| (Resource::RLIMIT_DATA, bytes)));
    }
    for (resource, limit) in wanted {
        setrlimit(resource, limit, limit).with_context(|| format!("setting {resource:?} to {limit}"))?;
    }
    Ok(())
}
