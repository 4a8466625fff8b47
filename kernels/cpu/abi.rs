//! The contract between the host and a kernel object: shared by `rust/cpu` and every kernel file.
//!
//! A kernel is one file compiled on its own (`rustc --crate-type cdylib`). It exports:
//!
//! | symbol | signature | meaning |
//! |---|---|---|
//! | `ew_abi` | `extern "C" fn() -> u32` | must return [`ABI`] |
//! | `ew_phases` | `extern "C" fn() -> u32` | how many phases a call has; the host puts a barrier between them |
//! | `ew_scratch` | `extern "C" fn(rows: u32, threads: u32) -> usize` | bytes of scratch a call needs, 64-byte aligned, contents undefined |
//! | `ew_packed_bytes` | `extern "C" fn(weight: u32) -> usize` | size of weight `weight` in the layout the kernel wants; 0 = read as stored |
//! | `ew_pack` | `unsafe extern "C" fn(weight: u32, stored: *const u8, packed: *mut u8)` | fills `packed` (64-byte aligned) from the stored bytes; called once, at load |
//! | `ew_run` | `unsafe extern "C" fn(call: *const Call, phase: u32, thread: u32)` | runs one thread's share of one phase |
//!
//! Every thread of the pool calls `ew_run` once a phase. A kernel allocates nothing, blocks on nothing and
//! writes only its outputs, its scratch, (for `kv_write`) the cache and (for recurrent ops) the state.
//!
//! Row invariance: the value of an output row depends only on that row's own inputs (and its sequence's cache), never
//! on how many rows the call has, on which thread computes it, or on where a prompt was cut into chunks.
//! The checks compare bytes.
#![allow(dead_code)]

use core::sync::atomic::AtomicU32;

/// Version of this contract.
pub const ABI: u32 = 2;
/// Most external inputs or outputs of a group.
pub const MAX_BUFFERS: usize = 8;
/// Most weights of a group.
pub const MAX_WEIGHTS: usize = 16;

/// The rows of one step. All arrays are valid for the duration of the call.
#[repr(C)]
pub struct Step {
    /// Rows (tokens) in this step.
    pub rows: u32,
    /// Segments: runs of neighbouring rows of one sequence.
    pub segments: u32,
    /// Rows whose output is wanted (`select_rows`).
    pub selected: u32,
    /// Token ids, `[rows]`.
    pub token_ids: *const u32,
    /// Position of each row in its sequence, `[rows]`; rising by one inside a segment.
    pub positions: *const u32,
    /// Cache slot of each row, `[rows]`; unused by encoders.
    pub slots: *const u32,
    /// First row of each segment, then `rows`: `[segments + 1]`.
    pub starts: *const u32,
    /// Row numbers that are wanted, `[selected]`.
    pub selected_rows: *const u32,
}

/// Key and value cache of one layer. Element type and order inside a slot are `EW_CACHE_DTYPE` and `EW_CACHE_LAYOUT`:
/// `position_major` = `[capacity, kv_heads, head_dim]`, `head_major` = `[kv_heads, capacity, head_dim]`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cache {
    pub keys: *mut u8,
    pub values: *mut u8,
    /// Bytes between one slot and the next (the same for keys and values).
    pub slot_bytes: usize,
    /// Positions a slot holds.
    pub capacity: u32,
}

/// What a recurrent op (`causal_conv`, `delta_rule`) carries on for each slot: float32, in the shape that the op table
/// gives it. A segment that starts at position 0 starts from zeros, whatever the slot holds; the kernel sees to that.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct State {
    pub start: *mut u8,
    /// Bytes between one slot and the next.
    pub slot_bytes: usize,
}

/// One call of one group. Buffers are float32, row-major `[rows | selected | segments, width]`, 64-byte aligned.
#[repr(C)]
pub struct Call {
    pub step: *const Step,
    /// Threads that will call `ew_run` for each phase.
    pub threads: u32,
    /// The group's external inputs, in order of first use by its ops.
    pub inputs: [*const f32; MAX_BUFFERS],
    /// The group's external outputs (read outside the group), in order of production.
    pub outputs: [*mut f32; MAX_BUFFERS],
    /// The group's weights: each op's weights in order, ops in order. Packed or as stored.
    pub weights: [*const u8; MAX_WEIGHTS],
    /// Cache of the layer that the group's `kv_write` or `attention` op names; null pointers without one.
    pub cache: Cache,
    /// State of the group's recurrent op; null without one.
    pub state: State,
    /// All weights of the group, as `weights` has them but without its limit: for groups with an `experts` op.
    pub table: *const *const u8,
    pub scratch: *mut u8,
    /// Zero at the start of every phase: for work shared out by ticket.
    pub ticket: *const AtomicU32,
}

/// Decimal text to number at compile time: parameters arrive as environment variables of `rustc`.
pub const fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut i = 0;
    while i < bytes.len() {
        assert!(bytes[i].is_ascii_digit(), "a kernel constant is not a decimal number");
        value = value * 10 + (bytes[i] - b'0') as usize;
        i += 1;
    }
    value
}

/// Equality of two strings at compile time.
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// How many times `word` stands in the space-separated list `words`, at compile time.
pub const fn count(words: &str, word: &str) -> usize {
    let (text, word) = (words.as_bytes(), word.as_bytes());
    let (mut i, mut found) = (0, 0);
    while i < text.len() {
        let mut end = i;
        while end < text.len() && text[end] != b' ' {
            end += 1;
        }
        if end - i == word.len() {
            let mut j = 0;
            while j < word.len() && text[i + j] == word[j] {
                j += 1;
            }
            if j == word.len() {
                found += 1;
            }
        }
        i = end + 1;
    }
    found
}

/// Whether the space-separated list `words` holds `word`, at compile time.
pub const fn has(words: &str, word: &str) -> bool {
    count(words, word) > 0
}

/// The half-open share of `items` that thread `thread` of `threads` owns; shares differ by at most one `unit`.
pub const fn share(items: usize, unit: usize, thread: usize, threads: usize) -> (usize, usize) {
    let units = items.div_ceil(unit);
    let each = units / threads;
    let extra = units % threads;
    let first = thread * each + if thread < extra { thread } else { extra };
    let last = first + each + if thread < extra { 1 } else { 0 };
    let start = first * unit;
    let end = last * unit;
    (if start < items { start } else { items }, if end < items { end } else { items })
}

/// A constant of the group, set by the builder; the default lets the file compile on its own.
#[macro_export]
macro_rules! constant {
    ($name:literal, $default:expr) => {
        match option_env!($name) {
            Some(text) => $crate::abi::number(text),
            None => $default,
        }
    };
}

/// A textual constant of the group, set by the builder.
#[macro_export]
macro_rules! text_constant {
    ($name:literal, $default:expr) => {
        match option_env!($name) {
            Some(text) => text,
            None => $default,
        }
    };
}

/// A float constant of the group, given as the decimal form of its bits.
#[macro_export]
macro_rules! float_constant {
    ($name:literal, $default:expr) => {
        match option_env!($name) {
            Some(text) => f32::from_bits($crate::abi::number(text) as u32),
            None => $default,
        }
    };
}
