//! What the kernel refuses to the program whatever it sees: Landlock, seccomp, no new privileges.

use crate::policy::Policy;
use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Calls that no engine, compiler or checker needs: other processes, mounts, namespaces, keys, modules, kernel memory.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_personality,
];

/// Refuses the calls of [`REFUSED`], sockets of any family but the local one, and new user namespaces.
///
/// # Errors
/// If the kernel has no seccomp filters.
pub fn seccomp() -> Result<()> {
    let argument = |number, operation, value| {
        SeccompCondition::new(number, SeccompCmpArgLen::Dword, operation, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    let not_local = argument(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?;
    rules.insert(libc::SYS_socket, vec![not_local]);
    let new_user = libc::CLONE_NEWUSER as u64;
    rules.insert(libc::SYS_clone, vec![argument(0, SeccompCmpOp::MaskedEq(new_user), new_user)?]);
    let architecture = std::env::consts::ARCH.try_into().context("seccomp on this processor")?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        architecture,
    )?;
    // clone3 hides its flags from filters; without it the C library falls back to clone.
    let no_clone3 = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        architecture,
    )?;
    for filter in [no_clone3, filter] {
        let program: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program).context("installing a seccomp filter")?;
    }
    Ok(())
}

/// Bounds files to those of the policy and refuses TCP, as far as this kernel's Landlock goes; whether it does anything.
///
/// # Errors
/// If a path of the policy cannot be opened.
pub fn landlock(policy: &Policy) -> Result<bool> {
    let version = ABI::V5;
    let read = AccessFs::from_read(version);
    let all = AccessFs::from_all(version);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(version))?
        .create()?;
    // Folders on the way to what is named may be listed: the root holds nothing else, and interpreters look there.
    ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::ReadDir))?;
    let system = ["/proc", "/sys"].map(std::path::PathBuf::from);
    for path in policy.read_only.iter().chain(&system).filter(|path| path.exists()) {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(path)?, read))?;
    }
    let own = ["/tmp", "/dev"].map(std::path::PathBuf::from);
    for path in policy.writable.iter().chain(&own).filter(|path| path.exists()) {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(path)?, all))?;
    }
    let status = ruleset.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Whether a file that is executed may give more rights than the caller has.
///
/// # Errors
/// If the kernel refuses.
pub fn no_new_privileges() -> Result<()> {
    nix::sys::prctl::set_no_new_privs().context("giving up new privileges")
}
