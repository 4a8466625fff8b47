//! `graph.json`: what a model computes. Parsed once, checked whole, never changed.

use crate::dtype::Dtype;
use crate::error::EngineError;
use crate::read_json::{parse, read_text};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// The only version of the format that is read.
pub const FORMAT: &str = "enginewright.graph/1";

/// A checked model graph.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    pub format: String,
    pub name: String,
    pub family: String,
    pub kind: ModelKind,
    pub dimensions: Dimensions,
    pub files: Vec<WeightFile>,
    pub weights: BTreeMap<String, Weight>,
    #[serde(default)]
    pub constants: BTreeMap<String, Constant>,
    pub buffers: BTreeMap<String, Buffer>,
    pub ops: Vec<Op>,
    /// The buffer that is the answer.
    pub output: String,
    #[serde(default)]
    pub text: Text,
    /// SHA-256 of the file's bytes, hexadecimal; plans name it.
    #[serde(skip)]
    pub sha256: String,
}

/// Whether the model gives logits by token or an embedding by segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    Decoder,
    Encoder,
}

/// The sizes people ask for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimensions {
    pub hidden: u64,
    pub layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub feed_forward: u64,
    /// Rows of the token embedding.
    pub vocabulary: u64,
    /// Most positions of a sequence.
    pub context: u64,
}

/// One weights file, relative to the checkpoint's folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightFile {
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}

/// Where a weight is stored. Shapes are row-major.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// Index into `files`.
    pub file: usize,
    pub offset: u64,
    pub bytes: u64,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
}

/// A small computed float32 array.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    pub shape: Vec<u64>,
    pub values: Vec<f32>,
}

/// A float32 activation, `[rows, width]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    pub rows: Rows,
    pub width: u64,
}

/// What the rows of a buffer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    Tokens,
    Selected,
    Segments,
}

/// One thing to compute.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "WrittenOp")]
pub struct Op {
    pub id: String,
    pub kind: OpKind,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// Weights or constants.
    pub weights: Vec<String>,
}

/// The kind of an op with its attributes; see the table in docs/architecture.md.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", content = "attributes", rename_all = "snake_case", deny_unknown_fields)]
pub enum OpKind {
    Embed { tables: Vec<Table>, position_offset: u64 },
    RmsNorm { epsilon: f64 },
    LayerNorm { epsilon: f64 },
    HeadNorm { heads: u64, head_dim: u64, epsilon: f64 },
    ZeroCentredNorm { heads: u64, head_dim: u64, epsilon: f64 },
    GatedNorm { heads: u64, head_dim: u64, epsilon: f64 },
    Linear {},
    HeadSlice { heads: u64, head_dim: u64, first: u64, count: u64 },
    Rope { heads: u64, head_dim: u64, rotary: u64, pairing: Pairing, magnitude: f64 },
    KvWrite { layer: u64, kv_heads: u64, head_dim: u64 },
    Attention { layer: u64, heads: u64, kv_heads: u64, head_dim: u64, scale: f64, window: u64 },
    SelfAttention { heads: u64, head_dim: u64, scale: f64 },
    CausalConv { layer: u64, kernel: u64 },
    DeltaRule { layer: u64, key_heads: u64, value_heads: u64, key_dim: u64, value_dim: u64, epsilon: f64 },
    SiluMul {},
    SigmoidMul {},
    TopKGate { top_k: u64 },
    Experts { experts: u64, inner: u64, top_k: u64 },
    Gelu { form: GeluForm },
    Add {},
    SelectRows {},
    MeanPool {},
    FirstPool {},
    L2Norm { epsilon: f64 },
}

/// What an `embed` table is indexed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    Token,
    Position,
    Type,
}

/// Which two values a rotation mixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    Adjacent,
    Half,
}

/// Which form of GELU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeluForm {
    Erf,
    Tanh,
}

/// What a server needs to know about text, besides `tokenizer.json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Text {
    pub chat_template: Option<String>,
    pub bos_id: Option<u32>,
    pub eos_ids: Vec<u32>,
    pub add_bos: bool,
    pub bos_token: Option<String>,
    pub eos_token: Option<String>,
}

/// An op as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOp {
    id: String,
    kind: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    #[serde(default)]
    weights: Vec<String>,
    #[serde(default)]
    attributes: serde_json::Map<String, serde_json::Value>,
}

impl TryFrom<WrittenOp> for Op {
    type Error = String;

    fn try_from(written: WrittenOp) -> Result<Self, String> {
        let tagged = serde_json::json!({"kind": written.kind, "attributes": written.attributes});
        let kind = serde_json::from_value(tagged).map_err(|error| format!("op `{}`: {error}", written.id))?;
        let WrittenOp { id, inputs, outputs, weights, .. } = written;
        Ok(Self { id, kind, inputs, outputs, weights })
    }
}

/// The part of the cache that an op writes or reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSite {
    pub layer: u64,
    /// Values that one position takes, in keys and again in values.
    pub width: u64,
}

impl Op {
    /// The cache that a `kv_write` or `attention` op names.
    pub fn cache_site(&self) -> Option<CacheSite> {
        match self.kind {
            OpKind::KvWrite { layer, kv_heads, head_dim }
            | OpKind::Attention { layer, kv_heads, head_dim, .. } => {
                Some(CacheSite { layer, width: kv_heads.saturating_mul(head_dim) })
            }
            _ => None,
        }
    }
}

impl Op {
    /// Layer and kind of what a recurrent op carries from row to row.
    pub fn recurrence(&self) -> Option<(u64, &'static str)> {
        match self.kind {
            OpKind::CausalConv { layer, .. } => Some((layer, "causal_conv")),
            OpKind::DeltaRule { layer, .. } => Some((layer, "delta_rule")),
            _ => None,
        }
    }
}

impl Graph {
    /// Whether a slot carries more than its cache: its rows run once, in order.
    pub fn is_recurrent(&self) -> bool {
        self.ops.iter().any(|op| op.recurrence().is_some())
    }

    /// Float32 values that a recurrent op carries on for each slot; `None` for other ops, or if they overflow.
    pub fn state_values(&self, op: &Op) -> Option<u64> {
        match op.kind {
            OpKind::CausalConv { kernel, .. } => {
                let width = self.buffers.get(op.inputs.first()?)?.width;
                kernel.checked_sub(1)?.checked_mul(width)
            }
            OpKind::DeltaRule { value_heads, key_dim, value_dim, .. } => {
                value_heads.checked_mul(key_dim)?.checked_mul(value_dim)
            }
            _ => None,
        }
    }

    /// Reads and checks `graph.json`.
    ///
    /// # Errors
    /// [`EngineError::File`] if it cannot be read, [`EngineError::Invalid`] if anything in it cannot be.
    pub fn load(path: &Path) -> Result<Self, EngineError> {
        Self::from_text(&path.display().to_string(), &read_text(path)?)
    }

    /// Parses and checks the text of a `graph.json`; `path` is for messages.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] naming the first field that cannot be.
    pub fn from_text(path: &str, text: &str) -> Result<Self, EngineError> {
        let mut graph: Self = parse(path, text, "graph")?;
        graph.sha256 = hexadecimal(&Sha256::digest(text.as_bytes()));
        crate::graph_check::check(path, &graph)?;
        Ok(graph)
    }

    /// Shape of a weight or constant.
    pub fn shape(&self, name: &str) -> Option<&[u64]> {
        let weight = self.weights.get(name).map(|weight| weight.shape.as_slice());
        weight.or_else(|| self.constants.get(name).map(|constant| constant.shape.as_slice()))
    }

    /// Stored weights that are vectors: norm weights and biases. Kernels get them as float32, whatever their type.
    pub fn vectors(&self) -> HashSet<&str> {
        let vectors = self.ops.iter().flat_map(|op| match op.kind {
            OpKind::Embed { .. } | OpKind::Experts { .. } => &[][..],
            OpKind::Linear {} => op.weights.get(1..).unwrap_or_default(),
            _ => op.weights.as_slice(),
        });
        vectors.map(String::as_str).filter(|name| self.weights.contains_key(*name)).collect()
    }

    /// Values in one row of the answer: the vocabulary, or the embedding.
    pub fn output_width(&self) -> usize {
        self.buffers.get(&self.output).map_or(0, |buffer| buffer.width as usize)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
