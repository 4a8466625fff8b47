//! A control group around the whole tree: memory and number of processes together, not for each.

use crate::policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

/// Control groups of one run, removed at its end.
#[derive(Default)]
pub struct Groups {
    folders: Vec<PathBuf>,
    /// Whether memory is bounded.
    pub has_memory: bool,
    /// Why not, if not.
    pub reason: Option<String>,
}

impl Groups {
    /// Makes what can be made, in version 2 or in version 1 of the interface.
    pub fn make(policy: &Policy) -> Self {
        let mut groups = Self::default();
        let Some(bytes) = policy.memory_bytes else { return groups };
        let name = format!("enginewright-{}", std::process::id());
        let one = Path::new("/sys/fs/cgroup");
        let memory = bytes.to_string();
        let processes = (policy.processes + 4).to_string();
        let made = if one.join("cgroup.controllers").exists() {
            groups.add(
                one.join(&name),
                &[("memory.max", &memory), ("memory.swap.max", "0"), ("pids.max", &processes)],
            )
        } else {
            let first = groups.add(one.join("memory").join(&name), &[("memory.limit_in_bytes", &memory)]);
            // A second layer beside the limit on processes, where the kernel has it.
            let _ = groups.add(one.join("pids").join(&name), &[("pids.max", &processes)]);
            first
        };
        groups.has_memory = made.is_ok();
        groups.reason = made.err();
        groups
    }

    fn add(&mut self, folder: PathBuf, settings: &[(&str, &str)]) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        if !folder.parent().is_some_and(|parent| parent.join("cgroup.procs").exists()) {
            return Err(format!("{}: no such hierarchy", folder.display()));
        }
        fs::create_dir(&folder).map_err(told)?;
        self.folders.push(folder.clone());
        for (number, (name, value)) in settings.iter().enumerate() {
            match fs::write(folder.join(name), value) {
                Ok(()) => {}
                // Only the first setting is what was asked for; a kernel may lack the others.
                Err(error) if number == 0 => return Err(told(error)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Puts this process, and so all its children to come, into the groups.
    pub fn enter(&self) -> std::io::Result<()> {
        // Not by its number, which differs between namespaces.
        self.folders.iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), "0"))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            // The last process may be on its way out for a moment.
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
}
