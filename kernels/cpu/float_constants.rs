//! The builder's constants of a group, op by op, for the float kernels.
#![allow(dead_code)]

use crate::abi;

/// Marks an op or a weight that the group does not have.
pub const ABSENT: usize = usize::MAX;
/// Most ops of a group that the patterns of these kernels match.
pub const MOST_OPS: usize = 8;

/// One textual constant of every op.
#[allow(unused_macros)]
macro_rules! texts {
    ($suffix:literal) => {
        [
            option_env!(concat!("EW_OP0_", $suffix)),
            option_env!(concat!("EW_OP1_", $suffix)),
            option_env!(concat!("EW_OP2_", $suffix)),
            option_env!(concat!("EW_OP3_", $suffix)),
            option_env!(concat!("EW_OP4_", $suffix)),
            option_env!(concat!("EW_OP5_", $suffix)),
            option_env!(concat!("EW_OP6_", $suffix)),
            option_env!(concat!("EW_OP7_", $suffix)),
        ]
    };
}

/// Numbers of every op; `fallback` where the builder gives none.
pub const fn numbers(texts: [Option<&str>; MOST_OPS], fallback: usize) -> [usize; MOST_OPS] {
    let mut numbers = [fallback; MOST_OPS];
    let mut i = 0;
    while i < MOST_OPS {
        if let Some(text) = texts[i] {
            numbers[i] = abi::number(text);
        }
        i += 1;
    }
    numbers
}

/// The word at `index` of a space-separated list; empty past the end.
pub const fn word(words: &str, index: usize) -> &str {
    let text = words.as_bytes();
    let (mut start, mut seen) = (0, 0);
    while start < text.len() {
        let mut end = start;
        while end < text.len() && text[end] != b' ' {
            end += 1;
        }
        if seen == index {
            return words.split_at(end).0.split_at(start).1;
        }
        seen += 1;
        start = end + 1;
    }
    ""
}

/// Number of the `nth` op of kind `kind` in `ops`, or [`ABSENT`].
pub const fn find(ops: &str, kind: &str, nth: usize) -> usize {
    let (mut op, mut seen) = (0, 0);
    while !word(ops, op).is_empty() {
        if abi::same(word(ops, op), kind) {
            if seen == nth {
                return op;
            }
            seen += 1;
        }
        op += 1;
    }
    ABSENT
}

/// The float of op `op` from the decimal form of its bits; `fallback` where the op or the text is missing.
pub const fn float(texts: [Option<&str>; MOST_OPS], op: usize, fallback: f32) -> f32 {
    if op >= MOST_OPS {
        return fallback;
    }
    match texts[op] {
        Some(text) => f32::from_bits(abi::number(text) as u32),
        None => fallback,
    }
}

/// The text of op `op`, or `fallback` where the op or the text is missing.
pub const fn text(
    texts: [Option<&'static str>; MOST_OPS],
    op: usize,
    fallback: &'static str,
) -> &'static str {
    if op >= MOST_OPS {
        return fallback;
    }
    match texts[op] {
        Some(text) => text,
        None => fallback,
    }
}
