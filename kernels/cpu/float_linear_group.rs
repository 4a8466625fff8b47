//! What a float `linear` group computes, from the constants of the builder.
//!
//! Rows in (perhaps `rms_norm` or `select_rows`), one to three `linear` over the same rows, and one way to finish:
//! store, `gelu`, `add` a residual (and perhaps `layer_norm`), or `silu_mul` of the first two.

use crate::abi;
use crate::constants::{ABSENT, MOST_OPS, find, float, numbers, text};

/// Op kinds of the group, in order.
pub const OPS: &str = text_constant!("EW_OPS", "linear");
/// Most rows of the step.
pub const MOST_ROWS: usize = constant!("EW_ROWS", 256);

const INS: [usize; MOST_OPS] = numbers(texts!("IN"), 384);
const OUTS: [usize; MOST_OPS] = numbers(texts!("OUT"), 384);
const BIASES: [usize; MOST_OPS] = numbers(texts!("BIAS"), 0);
const EPSILONS: [Option<&str>; MOST_OPS] = texts!("EPSILON_BITS");
const FORMS: [Option<&str>; MOST_OPS] = texts!("FORM");
const DTYPES: [Option<&str>; MOST_OPS] = texts!("DTYPE");

const RMS_NORM: usize = find(OPS, "rms_norm", 0);
const LAYER_NORM: usize = find(OPS, "layer_norm", 0);
const GELU: usize = find(OPS, "gelu", 0);

/// Weights of op `op`.
const fn weights_of(op: usize) -> usize {
    if op == RMS_NORM {
        1
    } else if op == LAYER_NORM {
        2
    } else if op == find(OPS, "linear", 0) || op == find(OPS, "linear", 1) || op == find(OPS, "linear", 2) {
        1 + BIASES[op]
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

/// Whether the rows are normalised first.
pub const HAS_RMS_NORM: bool = RMS_NORM != ABSENT;
/// Weight index of the first norm.
pub const RMS_NORM_WEIGHT: usize = if HAS_RMS_NORM { first_weight(RMS_NORM) } else { 0 };
/// Added to the mean square.
pub const RMS_NORM_EPSILON: f32 = float(EPSILONS, RMS_NORM, 1e-5);
/// Whether the wanted rows are picked from all.
pub const SELECTS: bool = find(OPS, "select_rows", 0) != ABSENT;
/// Whether the rows are the wanted ones.
pub const IS_SELECTED: bool = abi::same(text_constant!("EW_OP0_ROWS", "tokens"), "selected") || SELECTS;
/// Whether `select_rows` or `rms_norm` stands in front.
pub const HAS_PREPARING: bool = HAS_RMS_NORM || SELECTS;
/// Whether the finished rows are normalised.
pub const HAS_LAYER_NORM: bool = LAYER_NORM != ABSENT;
/// Weight index of the last norm's factors; its offsets follow.
pub const LAYER_NORM_WEIGHT: usize = if HAS_LAYER_NORM { first_weight(LAYER_NORM) } else { 0 };
/// Added to the variance.
pub const LAYER_NORM_EPSILON: f32 = float(EPSILONS, LAYER_NORM, 1e-12);

/// How the matrices are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Element {
    Single,
    Half,
    Brain,
}

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
}

/// How many `linear` the group has.
pub const LINEARS: usize = abi::count(OPS, "linear");
/// The `linear` ops in order; entries past [`LINEARS`] repeat the first with no outputs.
pub const LINEAR: [Linear; 3] = [linear(0), linear(1), linear(2)];

const fn linear(nth: usize) -> Linear {
    let found = find(OPS, "linear", nth);
    let op = if found == ABSENT { find(OPS, "linear", 0) } else { found };
    let outputs = if found == ABSENT { 0 } else { OUTS[op] };
    let matrix = first_weight(op);
    let bias = if BIASES[op] == 1 { matrix + 1 } else { ABSENT };
    Linear { inputs: INS[op], outputs, matrix, bias }
}

const fn element(nth: usize) -> Element {
    let found = find(OPS, "linear", nth);
    let name = text(DTYPES, if found == ABSENT { find(OPS, "linear", 0) } else { found }, "f32");
    if abi::same(name, "f16") {
        Element::Half
    } else if abi::same(name, "bf16") {
        Element::Brain
    } else {
        assert!(abi::same(name, "f32"), "a float kernel reads f32, f16 or bf16 matrices");
        Element::Single
    }
}

/// How the matrices of the group are stored.
pub const ELEMENT: Element = element(0);
/// Bytes of one element.
pub const ELEMENT_BYTES: usize = if matches!(ELEMENT, Element::Single) { 4 } else { 2 };

/// Width of an input row.
pub const INPUTS: usize = LINEAR[0].inputs;
const _: () = assert!(LINEARS >= 1 && LINEARS <= 3, "a group has one to three linear ops");
const _: () =
    assert!(INPUTS == LINEAR[1].inputs && INPUTS == LINEAR[2].inputs, "the linear ops share their input");
const _: () = assert!(
    element(1) as u8 == ELEMENT as u8 && element(2) as u8 == ELEMENT as u8,
    "the matrices of a group have one element type"
);

/// What becomes of the products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Each product is an output.
    Store,
    /// Output = gelu(product), in the erf form.
    GeluErf,
    /// Output = gelu(product), in the tanh form.
    GeluTanh,
    /// Output = product + the second input.
    Add,
    /// Output = silu(first product) * second product.
    SiluMul,
}

/// How the products of the group are finished; a last norm comes after it.
pub const FINISH: Finish = if GELU != ABSENT {
    if abi::same(text(FORMS, GELU, "erf"), "tanh") { Finish::GeluTanh } else { Finish::GeluErf }
} else if abi::has(OPS, "silu_mul") {
    Finish::SiluMul
} else if abi::has(OPS, "add") {
    Finish::Add
} else {
    Finish::Store
};
/// Matrices multiplied tile by tile together.
pub const PAIRED: usize = if matches!(FINISH, Finish::SiluMul) { 2 } else { 1 };
