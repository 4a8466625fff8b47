//! A root file system of its own: an empty one, with binds of just what the policy names.

use crate::policy::Policy;
use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};
use std::fs;
use std::path::{Path, PathBuf};

const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];
/// What engines read of the machine where a whole /proc cannot be had.
const PROC_FILES: [&str; 2] = ["/proc/cpuinfo", "/proc/meminfo"];
/// Caches, cores and huge pages, as the probe and the pool read them.
const MACHINE: [&str; 2] = ["/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage"];

/// Makes the root at `base`, an existing empty folder, and moves into it. The caller is in namespaces of its own.
///
/// # Errors
/// If the kernel refuses a mount: nothing of the old root is kept, and the caller must end.
pub fn enter(policy: &Policy, base: &Path) -> Result<()> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("making mounts private")?;
    let size = "size=4m,mode=0755";
    mount(Some("tmpfs"), base, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(size))
        .context("mounting an empty root")?;
    fs::create_dir_all(base.join("proc"))?;
    let is_whole = mount(
        Some("proc"),
        &base.join("proc"),
        Some("proc"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        none,
    )
    .is_ok();
    // Before all binds: those of folders under /tmp (a test's own) lie inside it.
    let temporary = base.join("tmp");
    fs::create_dir_all(&temporary)?;
    let size = format!("size={},mode=1777", policy.temporary_bytes);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), &temporary, Some("tmpfs"), flags, Some(size.as_str())).context("mounting /tmp")?;
    let machine = MACHINE.iter().chain(if is_whole { &[][..] } else { &PROC_FILES });
    for path in machine.map(Path::new).chain(policy.read_only.iter().map(PathBuf::as_path)) {
        bind(base, path, true)?;
    }
    for path in &policy.writable {
        bind(base, path, false)?;
    }
    for path in DEVICES {
        bind(base, Path::new(path), false)?;
    }
    let old = base.join(".old");
    fs::create_dir(&old)?;
    pivot_root(base, &old).context("pivot_root")?;
    chdir("/").context("chdir /")?;
    umount2("/.old", MntFlags::MNT_DETACH).context("leaving the old root")?;
    fs::remove_dir("/.old")?;
    let sealed =
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(none, "/", none, sealed, none).context("sealing the root")?;
    Ok(())
}

/// Shows `path` under the same name in the new root. A path that does not exist is left out.
fn bind(base: &Path, path: &Path, is_read_only: bool) -> Result<()> {
    let Ok(facts) = fs::metadata(path) else { return Ok(()) };
    let target = base.join(path.strip_prefix("/").unwrap_or(path));
    if facts.is_dir() {
        fs::create_dir_all(&target)?;
    } else {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        // A name that an earlier bind shows already is there.
        if !target.exists() {
            fs::File::create(&target)?;
        }
    }
    let none: Option<&str> = None;
    mount(Some(path), &target, none, MsFlags::MS_BIND, none)
        .with_context(|| format!("showing {}", path.display()))?;
    // Flags that the old mount has may not be taken away in a user namespace.
    let held = statvfs(&target).map_or(FsFlags::empty(), |found| found.flags());
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID;
    for (fs_flag, mount_flag) in [
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ] {
        if held.contains(fs_flag) {
            flags |= mount_flag;
        }
    }
    if is_read_only || held.contains(FsFlags::ST_RDONLY) {
        flags |= MsFlags::MS_RDONLY;
    }
    mount(none, &target, none, flags, none).with_context(|| format!("protecting {}", path.display()))
}
