//! Places buffers in one arena so that those alive at the same time never overlap.

use std::collections::HashMap;

/// Alignment that kernels may rely on, in bytes: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// `bytes` up to the next multiple of [`ALIGNMENT`]; `None` on overflow.
pub fn aligned(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(ALIGNMENT)
}

/// A buffer that leaves its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    pub name: String,
    pub bytes: usize,
    /// Group that writes it.
    pub first: usize,
    /// Last group that reads it; the end of the step for the output.
    pub last: usize,
}

/// Where every buffer lies, in bytes from the arena's start.
#[derive(Debug, Default)]
pub struct Placement {
    pub offsets: HashMap<String, usize>,
    pub bytes: usize,
}

/// First fit, largest first: both ends of a lifetime count, so a group's inputs never share with its outputs.
/// `None` if the arena would not fit into the address space.
pub fn place(mut buffers: Vec<Live>) -> Option<Placement> {
    buffers.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.first.cmp(&b.first)).then(a.name.cmp(&b.name)));
    let mut placed: Vec<(usize, usize, Live)> = Vec::with_capacity(buffers.len());
    let mut arena = 0;
    for buffer in buffers {
        let size = aligned(buffer.bytes.max(1))?;
        let mut busy: Vec<(usize, usize)> = placed
            .iter()
            .filter(|(_, _, other)| other.first <= buffer.last && buffer.first <= other.last)
            .map(|&(start, end, _)| (start, end))
            .collect();
        busy.sort_unstable();
        let mut start: usize = 0;
        for (from, to) in busy {
            if start.checked_add(size)? <= from {
                break;
            }
            start = start.max(to);
        }
        let end = start.checked_add(size)?;
        arena = arena.max(end);
        placed.push((start, end, buffer));
    }
    let offsets = placed.into_iter().map(|(start, _, buffer)| (buffer.name, start)).collect();
    Some(Placement { offsets, bytes: arena })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(name: &str, bytes: usize, first: usize, last: usize) -> Live {
        Live { name: name.into(), bytes, first, last }
    }

    #[test]
    fn buffers_alive_together_never_overlap() {
        let buffers: Vec<Live> = (0..60)
            .map(|i| live(&format!("b{i}"), 64 + (i * 7919) % 1000, i / 3, i / 3 + 1 + (i * 31) % 5))
            .collect();
        let placement = place(buffers.clone()).unwrap();
        for a in &buffers {
            assert_eq!(placement.offsets[&a.name] % 64, 0);
            assert!(placement.offsets[&a.name] + a.bytes <= placement.bytes);
            for b in buffers.iter().filter(|b| b.name != a.name && a.first <= b.last && b.first <= a.last) {
                let (x, y) = (placement.offsets[&a.name], placement.offsets[&b.name]);
                assert!(x + a.bytes <= y || y + b.bytes <= x, "{a:?} at {x} overlaps {b:?} at {y}");
            }
        }
    }

    #[test]
    fn a_chain_needs_two_places_only() {
        let chain = (0..10).map(|i| live(&format!("b{i}"), 4096, i, i + 1)).collect();
        assert_eq!(place(chain).unwrap().bytes, 2 * 4096);
    }

    #[test]
    fn sizes_that_do_not_fit_the_address_space_are_refused() {
        assert!(place(vec![live("a", usize::MAX - 8, 0, 1), live("b", 64, 0, 1)]).is_none());
    }
}
