//! Which layers this machine gives, found by trying each in a process of its own.

use crate::cgroup::Groups;
use crate::policy::{Level, Policy};
use crate::restrict;
use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, geteuid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Prints one JSON object: `level` (`strong`, `weak` or `none`) and `layers`, each null or the reason why it is missing.
///
/// # Errors
/// If a process cannot be made at all.
pub fn run() -> Result<ExitCode> {
    let user = if geteuid().is_root() { CloneFlags::empty() } else { CloneFlags::CLONE_NEWUSER };
    let mut layers: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for (name, flag) in [
        ("user_namespace", CloneFlags::CLONE_NEWUSER),
        ("mount_namespace", CloneFlags::CLONE_NEWNS),
        ("pid_namespace", CloneFlags::CLONE_NEWPID),
        ("network_namespace", CloneFlags::CLONE_NEWNET),
        ("ipc_namespace", CloneFlags::CLONE_NEWIPC),
    ] {
        layers.insert(name, attempt(|| unshare(user | flag).map_err(Into::into))?);
    }
    layers.insert("seccomp", attempt(|| restrict::no_new_privileges().and_then(|()| restrict::seccomp()))?);
    layers.insert(
        "landlock",
        attempt(|| {
            restrict::no_new_privileges()?;
            anyhow::ensure!(
                restrict::landlock(&plain(Level::Strong))?,
                "not in this kernel, or not turned on"
            );
            Ok(())
        })?,
    );
    let groups = Groups::make(&Policy { memory_bytes: Some(1 << 30), ..plain(Level::Weak) });
    layers.insert("control_group", groups.reason.clone());
    drop(groups);
    layers.insert("own_root", whole(Level::Strong)?);
    let weak = whole(Level::Weak)?;
    let level = match (&layers["own_root"], weak) {
        (None, _) => "strong",
        (Some(_), None) => "weak",
        (Some(_), Some(_)) => "none",
    };
    println!("{}", json!({"level": level, "layers": layers}));
    Ok(ExitCode::SUCCESS)
}

fn plain(level: Level) -> Policy {
    Policy {
        level,
        read_only: ["/lib", "/lib64", "/usr"].map(PathBuf::from).to_vec(),
        writable: Vec::new(),
        environment: BTreeMap::new(),
        keep_fds: Vec::new(),
        working_folder: None,
        memory_bytes: None,
        processes: 64,
        file_bytes: 1 << 20,
        cpu_seconds: None,
        temporary_bytes: 1 << 20,
    }
}

/// Tries something in a process of its own; the reason if it fails.
fn attempt(what: impl FnOnce() -> Result<()>) -> Result<Option<String>> {
    let (mut reader, mut writer) = std::io::pipe().context("pipe")?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            let code = match what() {
                Ok(()) => 0,
                Err(error) => {
                    let _ = write!(writer, "{error:#}");
                    1
                }
            };
            std::process::exit(code);
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut reason = String::new();
            reader.read_to_string(&mut reason).context("reading the reason")?;
            match waitpid(child, None).context("waiting")? {
                WaitStatus::Exited(_, 0) => Ok(None),
                status if reason.is_empty() => Ok(Some(format!("{status:?}"))),
                _ => Ok(Some(reason)),
            }
        }
    }
}

/// Runs this program's `nothing` in a whole sandbox; the reason if that fails.
fn whole(level: Level) -> Result<Option<String>> {
    let own = std::env::current_exe().context("the path of this program")?;
    let named = if level == Level::Strong { "strong" } else { "weak" };
    let policy: Value = json!({
        "level": named, "read_only": ["/lib", "/lib64", "/usr/lib", own], "processes": 64, "file_bytes": 1 << 20,
    });
    let done = Command::new(&own)
        .args(["run", "--policy", &policy.to_string(), "--"])
        .arg(&own)
        .arg("nothing")
        .stdin(Stdio::null())
        .output()
        .context("starting this program again")?;
    if done.status.success() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
}
