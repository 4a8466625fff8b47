//! The processes of a run: a supervisor outside, the first process of the namespaces, and the command.
//!
//! The first process dies with the supervisor, and everything in its namespace dies with it: nothing is left behind,
//! however it forked and whatever it ignores.

use crate::cgroup::Groups;
use crate::policy::{Level, Policy};
use crate::{SANDBOX_FAILED, limits, restrict, root};
use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, raise, signal, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{
    ForkResult, Gid, Pid, Uid, chdir, chown, execve, fork, getegid, geteuid, mkdtemp, setgroups, setresgid,
    setresuid,
};
use std::ffi::{CString, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Who the command runs as where the caller could be anybody.
const NOBODY: u32 = 65534;
const SEPARATE: CloneFlags = CloneFlags::CLONE_NEWNS
    .union(CloneFlags::CLONE_NEWPID)
    .union(CloneFlags::CLONE_NEWNET)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS);

/// Runs the command and ends as it ended.
///
/// # Errors
/// If the policy cannot be carried out as written: the command did not run.
pub fn run(policy: &str, command: &[OsString]) -> Result<ExitCode> {
    let policy = Policy::read(policy)?;
    let groups = Groups::make(&policy);
    match policy.level {
        Level::Weak => weak(&policy, &groups, command),
        Level::Strong => strong(&policy, &groups, command),
    }
}

fn weak(policy: &Policy, groups: &Groups, command: &[OsString]) -> Result<ExitCode> {
    let blocked = block_signals()?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { child } => Ok(watch(child, &blocked)),
        ForkResult::Child => {
            let failed = execute(policy, groups, command, None);
            finish_child(&failed)
        }
    }
}

fn strong(policy: &Policy, groups: &Groups, command: &[OsString]) -> Result<ExitCode> {
    let base = Base::make()?;
    let is_root = geteuid().is_root();
    let with_rights = is_root && unshare(SEPARATE).is_ok();
    if !with_rights {
        let (user, group) = (geteuid(), getegid());
        unshare(SEPARATE | CloneFlags::CLONE_NEWUSER).context(
            "this machine gives no namespaces to this user\nhint: run where unprivileged user namespaces are \
             allowed, or accept less with --sandbox=weak",
        )?;
        map_user(user, group)?;
    }
    let blocked = block_signals()?;
    // The first process of the new namespace of processes.
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { child } => {
            let code = watch(child, &blocked);
            drop(base);
            Ok(code)
        }
        ForkResult::Child => {
            let failed = first_process(policy, groups, command, &base.0, with_rights, &blocked);
            finish_child(&failed)
        }
    }
}

/// The empty folder that the new root is mounted on.
struct Base(PathBuf);

impl Base {
    fn make() -> Result<Self> {
        // Not named after this process: one that was killed leaves its folder, and numbers come round again.
        let template = std::env::temp_dir().join("enginewright-root-XXXXXX");
        mkdtemp(&template).map(Self).with_context(|| format!("making {}", template.display()))
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // Mounted on only in a namespace that has ended; if it is in use all the same, an empty folder stays.
        let _ = fs::remove_dir(&self.0);
    }
}

fn map_user(user: Uid, group: Gid) -> Result<()> {
    fs::write("/proc/self/setgroups", "deny").context("giving up groups")?;
    fs::write("/proc/self/uid_map", format!("{NOBODY} {user} 1")).context("mapping the user")?;
    fs::write("/proc/self/gid_map", format!("{NOBODY} {group} 1")).context("mapping the group")
}

fn first_process(
    policy: &Policy,
    groups: &Groups,
    command: &[OsString],
    base: &Path,
    with_rights: bool,
    blocked: &SigSet,
) -> Result<std::convert::Infallible> {
    set_pdeathsig(Signal::SIGKILL).context("dying with the supervisor")?;
    groups.enter().context("entering the control group")?;
    root::enter(policy, base)?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { child } => {
            let code = watch_as_first(child, blocked);
            std::process::exit(code);
        }
        ForkResult::Child => execute(policy, groups, command, Some(with_rights)),
    }
}

/// Becomes the command. `inside`: in namespaces, made with the rights of root or not.
fn execute(
    policy: &Policy,
    groups: &Groups,
    command: &[OsString],
    inside: Option<bool>,
) -> Result<std::convert::Infallible> {
    set_pdeathsig(Signal::SIGKILL).context("dying with the supervisor")?;
    if inside.is_none() {
        groups.enter().context("entering the control group")?;
    }
    let text = |text: &std::ffi::OsStr| CString::new(text.as_bytes()).context("a NUL in the command");
    let arguments: Vec<CString> = command.iter().map(|part| text(part)).collect::<Result<_>>()?;
    let environment: Vec<CString> = policy
        .environment
        .iter()
        .map(|(name, value)| text(OsString::from(format!("{name}={value}")).as_os_str()))
        .collect::<Result<_>>()?;
    if let Some(folder) = &policy.working_folder {
        chdir(folder).with_context(|| format!("going to {}", folder.display()))?;
    }
    close_others(&policy.keep_fds)?;
    if inside == Some(true) {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        for path in policy.writable.iter().filter(|path| path.exists()) {
            chown(path, Some(user), Some(group))
                .with_context(|| format!("handing over {}", path.display()))?;
        }
        setgroups(&[]).context("giving up groups")?;
        setresgid(group, group, group).context("giving up the group")?;
        setresuid(user, user, user).context("giving up the user")?;
        // Changing the user clears it.
        set_pdeathsig(Signal::SIGKILL).context("dying with the supervisor")?;
    }
    limits::set(policy, groups.has_memory)?;
    restrict::no_new_privileges()?;
    if inside.is_some() {
        restrict::landlock(policy)?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).context("signals")?;
    restrict::seccomp()?;
    let program = arguments.first().context("no command")?;
    match execve(program, &arguments, &environment) {
        Ok(never) => Ok(never),
        Err(error) => bail!("cannot run {}: {error}", program.to_string_lossy()),
    }
}

/// Closes every descriptor but 0, 1, 2 and those to keep, which lose their close-on-exec mark.
fn close_others(keep: &[i32]) -> Result<()> {
    let mut kept: Vec<i32> = keep.to_vec();
    kept.sort_unstable();
    kept.dedup();
    let mut from: u32 = 3;
    for &fd in &kept {
        close_range(from, fd as u32)?;
        // SAFETY: plain numbers; a descriptor that is not open is an error.
        let done = unsafe { nix::libc::fcntl(fd, nix::libc::F_SETFD, 0) };
        nix::errno::Errno::result(done).with_context(|| format!("file descriptor {fd} is not open"))?;
        from = fd as u32 + 1;
    }
    close_range(from, u32::MAX)
}

/// Closes `from` up to but not with `end`.
fn close_range(from: u32, end: u32) -> Result<()> {
    if from >= end {
        return Ok(());
    }
    // SAFETY: nothing in this process uses descriptors past 2 any more.
    let done = unsafe { nix::libc::syscall(nix::libc::SYS_close_range, from, end - 1, 0) };
    nix::errno::Errno::result(done).context("closing file descriptors").map(|_| ())
}

/// The signals that a supervisor passes on, and the one that says that a child ended.
fn block_signals() -> Result<SigSet> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        set.add(signal);
    }
    set.thread_block().context("blocking signals")?;
    Ok(set)
}

/// Waits for the child and ends as it ended, passing signals on to it.
fn watch(child: Pid, blocked: &SigSet) -> ExitCode {
    match watch_status(child, blocked) {
        WaitStatus::Signaled(_, ended_by, _) => {
            // The same end for whoever waits for us.
            // SAFETY: the default action, in a process of one thread.
            let _ = unsafe { signal(ended_by, SigHandler::SigDfl) };
            let _ = blocked.thread_unblock();
            let _ = raise(ended_by);
            ExitCode::from(128u8.saturating_add(ended_by as u8))
        }
        WaitStatus::Exited(_, code) if code > 256 => ExitCode::from(SANDBOX_FAILED),
        WaitStatus::Exited(_, code) => match signal_of(code) {
            Some(ended_by) => {
                // SAFETY: as above.
                let _ = unsafe { signal(ended_by, SigHandler::SigDfl) };
                let _ = blocked.thread_unblock();
                let _ = raise(ended_by);
                ExitCode::from(code as u8)
            }
            None => ExitCode::from(code as u8),
        },
        _ => ExitCode::from(SANDBOX_FAILED),
    }
}

/// The first process says by 128 + number that a signal ended the command.
fn signal_of(code: i32) -> Option<Signal> {
    Signal::try_from(code - 128).ok().filter(|_| code > 128)
}

/// As [`watch`] inside: adopts and buries whatever the command leaves behind, and ends with the command.
fn watch_as_first(child: Pid, blocked: &SigSet) -> i32 {
    match watch_status(child, blocked) {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, ended_by, _) => 128 + ended_by as i32,
        _ => i32::from(SANDBOX_FAILED),
    }
}

fn watch_status(child: Pid, blocked: &SigSet) -> WaitStatus {
    loop {
        match blocked.wait() {
            Ok(Signal::SIGCHLD) => loop {
                match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                    Ok(status) if status.pid() == Some(child) => return status,
                    // Somebody else's child, adopted.
                    Ok(status) if status.pid().is_some() => {}
                    Ok(_) => break,
                    Err(_) => return WaitStatus::StillAlive,
                }
            },
            Ok(other) => {
                // It may have ended just now; then SIGCHLD is on its way.
                let _ = kill(child, other);
            }
            Err(_) => return WaitStatus::StillAlive,
        }
    }
}

/// Says why the command did not run, and ends this copy of the process.
fn finish_child(failed: &Result<std::convert::Infallible>) -> ! {
    if let Err(error) = failed {
        let _ = writeln!(std::io::stderr(), "error: the sandbox could not be made: {error:#}");
    }
    std::process::exit(i32::from(SANDBOX_FAILED))
}
