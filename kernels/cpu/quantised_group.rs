//! What the group computes, read at compile time from the constants of the builder.
//!
//! A group here is: rows in (perhaps `rms_norm`, perhaps `select_rows`), one to three `linear` over the same rows, and
//! one way to finish: store, `add` a residual, `silu_mul` of the first two, or `rope` of the first two and `kv_write`.
#![allow(dead_code)]

use crate::abi;
use crate::layout::BLOCK;

/// Op kinds of the group, in order.
pub const OPS: &str = text_constant!("EW_OPS", "linear");
/// Most rows of the step.
pub const MOST_ROWS: usize = constant!("EW_ROWS", 256);

/// Marks an op or a weight that the group does not have.
pub const ABSENT: usize = usize::MAX;
/// Most ops of a group that the patterns of these kernels match.
const MOST_OPS: usize = 8;

/// One numeric constant of every op.
macro_rules! numbers {
    ($suffix:literal, $default:expr) => {{
        const TEXTS: [Option<&str>; MOST_OPS] = texts!($suffix);
        const NUMBERS: [usize; MOST_OPS] = {
            let mut numbers = [$default; MOST_OPS];
            let mut i = 0;
            while i < MOST_OPS {
                if let Some(text) = TEXTS[i] {
                    numbers[i] = abi::number(text);
                }
                i += 1;
            }
            numbers
        };
        NUMBERS
    }};
}

/// One constant of every op, as text.
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

/// Number of the `nth` op of kind `kind` in the group, or [`ABSENT`].
const fn find(kind: &str, nth: usize) -> usize {
    let (ops, kind) = (OPS.as_bytes(), kind.as_bytes());
    let (mut i, mut op, mut seen) = (0, 0, 0);
    while i < ops.len() {
        let mut end = i;
        while end < ops.len() && ops[end] != b' ' {
            end += 1;
        }
        let mut is_equal = end - i == kind.len();
        let mut j = 0;
        while is_equal && j < kind.len() {
            is_equal = ops[i + j] == kind[j];
            j += 1;
        }
        if is_equal {
            if seen == nth {
                return op;
            }
            seen += 1;
        }
        op += 1;
        i = end + 1;
    }
    ABSENT
}

const INS: [usize; MOST_OPS] = numbers!("IN", 768);
const OUTS: [usize; MOST_OPS] = numbers!("OUT", 576);
const DTYPES: [Option<&str>; MOST_OPS] = texts!("DTYPE");
const BIASES: [usize; MOST_OPS] = numbers!("BIAS", 0);
const EPSILONS: [usize; MOST_OPS] = numbers!("EPSILON_BITS", 925_353_388);
const HEADS: [usize; MOST_OPS] = numbers!("KV_HEADS", 3);
const HEAD_DIMS: [usize; MOST_OPS] = numbers!("HEAD_DIM", 64);
const ROTARIES: [usize; MOST_OPS] = numbers!("ROTARY", 64);
const MAGNITUDES: [usize; MOST_OPS] = numbers!("MAGNITUDE_BITS", 1_065_353_216);
const PAIRINGS: [Option<&str>; MOST_OPS] = texts!("PAIRING");

/// Weights of op `op`.
const fn weights_of(op: usize) -> usize {
    if op == NORM_OP {
        1
    } else if op == find("linear", 0) || op == find("linear", 1) || op == find("linear", 2) {
        1 + BIASES[op]
    } else if op == find("rope", 0) || op == find("rope", 1) {
        1
    } else {
        0
    }
}

/// Index of the first weight of op `op` among the weights of the group.
const fn first_weight(op: usize) -> usize {
    let (mut i, mut first) = (0, 0);
    while i < op {
        first += weights_of(i);
        i += 1;
    }
    first
}

const NORM_OP: usize = find("rms_norm", 0);
/// Whether the rows are normalised first.
pub const HAS_NORM: bool = NORM_OP != ABSENT;
/// Weight index of the norm.
pub const NORM_WEIGHT: usize = if HAS_NORM { first_weight(NORM_OP) } else { ABSENT };
/// Added to the mean square.
pub const EPSILON: f32 = f32::from_bits(EPSILONS[if HAS_NORM { NORM_OP } else { 0 }] as u32);
/// Whether the group takes the wanted rows out of all.
pub const SELECTS: bool = find("select_rows", 0) != ABSENT;
/// What the rows of the products are: `tokens`, `selected` or `segments`.
pub const ROWS: &str = match texts!("ROWS")[find("linear", 0)] {
    Some(text) => text,
    None if SELECTS => "selected",
    None => "tokens",
};

/// One `linear` of the group.
#[derive(Clone, Copy)]
pub struct Linear {
    /// Width of an input row.
    pub inputs: usize,
    /// Width of an output row.
    pub outputs: usize,
    /// Weight index of the matrix.
    pub matrix: usize,
    /// Weight index of the bias, or [`ABSENT`].
    pub bias: usize,
    /// Stored type of the matrix, where the builder says it.
    pub dtype: Option<&'static str>,
}

/// How many `linear` the group has.
pub const LINEARS: usize = abi::count(OPS, "linear");
/// The `linear` ops in order; entries past [`LINEARS`] repeat the first with no outputs.
pub const LINEAR: [Linear; 3] = [linear(0), linear(1), linear(2)];

const fn linear(nth: usize) -> Linear {
    let found = find("linear", nth);
    let op = if found == ABSENT { find("linear", 0) } else { found };
    let outputs = if found == ABSENT { 0 } else { OUTS[op] };
    let matrix = first_weight(op);
    let bias = if BIASES[op] == 1 { matrix + 1 } else { ABSENT };
    Linear { inputs: INS[op], outputs, matrix, bias, dtype: DTYPES[op] }
}

/// Width of an input row.
pub const INPUTS: usize = LINEAR[0].inputs;
/// Blocks of activations of an input row.
pub const BLOCKS: usize = INPUTS / BLOCK;
const _: () = assert!(LINEARS >= 1 && LINEARS <= 3, "a group has one to three linear ops");
const _: () =
    assert!(INPUTS == LINEAR[1].inputs && INPUTS == LINEAR[2].inputs, "the linear ops share their input");
const _: () = assert!(INPUTS.is_multiple_of(BLOCK), "a row of a quantised matrix is whole blocks of 32");

/// What becomes of the products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Each product is an output.
    Store,
    /// Output = product + the second input.
    Add,
    /// Output = silu(first product) * second product.
    SiluMul,
    /// First product rotated is the output; second rotated and third go to the cache.
    RopeCache,
}

/// How the group ends.
pub const FINISH: Finish = if abi::has(OPS, "kv_write") {
    Finish::RopeCache
} else if abi::has(OPS, "silu_mul") {
    Finish::SiluMul
} else if abi::has(OPS, "add") {
    Finish::Add
} else {
    Finish::Store
};

const ROPE_OP: usize = if FINISH as u8 == Finish::RopeCache as u8 { find("rope", 0) } else { 0 };
const CACHE_OP: usize = if FINISH as u8 == Finish::RopeCache as u8 { find("kv_write", 0) } else { 0 };
/// Heads of the keys and values.
pub const KV_HEADS: usize = HEADS[CACHE_OP];
/// Width of a head.
pub const HEAD_DIM: usize = HEAD_DIMS[CACHE_OP];
/// Lanes of a head that are rotated, from the first.
pub const ROTARY: usize = ROTARIES[ROPE_OP];
/// Scale of cosine and sine.
pub const MAGNITUDE: f32 = f32::from_bits(MAGNITUDES[ROPE_OP] as u32);
/// Whether a pair is neighbours (2i, 2i + 1) and not halves (i, i + rotary / 2).
pub const PAIRS_ARE_ADJACENT: bool = match PAIRINGS[ROPE_OP] {
    Some(text) => abi::same(text, "adjacent"),
    None => true,
};
/// Weight index of the frequencies.
pub const FREQUENCIES: usize = first_weight(ROPE_OP);
/// Whether cache elements are f16 and not f32.
pub const CACHE_IS_F16: bool = abi::same(text_constant!("EW_CACHE_DTYPE", "f32"), "f16");
/// Whether a slot is `[kv_heads, capacity, head_dim]` and not `[capacity, kv_heads, head_dim]`.
pub const CACHE_IS_HEAD_MAJOR: bool =
    abi::same(text_constant!("EW_CACHE_LAYOUT", "position_major"), "head_major");
