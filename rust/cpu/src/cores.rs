//! Which cores this process may use, in the order in which threads should take them.

use core_affinity::CoreId;
use std::sync::OnceLock;

/// Cores allowed by the affinity mask: one of each physical core first, then their siblings.
///
/// Read once: a thread that has been pinned since sees its own core only, and hands that on to threads it starts.
pub fn allowed() -> Vec<CoreId> {
    static ALLOWED: OnceLock<Vec<CoreId>> = OnceLock::new();
    ALLOWED.get_or_init(read_allowed).clone()
}

fn read_allowed() -> Vec<CoreId> {
    let all = core_affinity::get_core_ids().unwrap_or_default();
    let mut cores = all.clone();
    cores.sort_by_key(|core| {
        let siblings = siblings(core.id);
        all.iter().filter(|other| other.id < core.id && siblings.contains(&other.id)).count()
    });
    cores
}

/// Processors that share a physical core with `core`, itself included; only itself when the system does not say.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    match std::fs::read_to_string(path) {
        Ok(text) => parse_list(text.trim()),
        Err(_) => vec![core],
    }
}

/// Numbers of a list such as `0-3,8,10-11`; what is not a number is left out.
fn parse_list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,8,10-11"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(parse_list("5"), [5]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn at_least_one_core_is_allowed_and_none_twice() {
        let mut ids: Vec<usize> = allowed().iter().map(|core| core.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(count > 0 && ids.len() == count);
    }
}
