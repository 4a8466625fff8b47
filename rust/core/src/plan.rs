//! `plan.json`: how a graph is computed. Parsed once, checked against its graph, never changed.

use crate::error::EngineError;
use crate::executor::StepKind;
use crate::graph::{Graph, Op, hexadecimal};
use crate::read_json::{parse, read_text};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// The only version of the format that is read.
pub const FORMAT: &str = "enginewright.plan/1";

/// A checked plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub format: String,
    /// SHA-256 of the `graph.json` that the plan was made for.
    pub graph: String,
    /// What it runs on.
    #[serde(default)]
    pub device: Device,
    pub threads: usize,
    pub pool: Pool,
    pub memory: Memory,
    /// How keys and values are kept; present in every plan, unused by encoders.
    pub cache: Cache,
    /// Processor features of all kernels, as `/proc/cpuinfo` names them.
    pub requires: Vec<String>,
    /// Approximations in use; the host only reports them.
    #[serde(default)]
    pub numerics: Vec<String>,
    pub steps: BTreeMap<StepKind, Step>,
    /// SHA-256 of the file's bytes, hexadecimal; the engine tells it to whoever asks what runs.
    #[serde(skip)]
    pub sha256: String,
}

/// Kinds of devices; each has an executor and a kernel contract of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    #[default]
    Cpu,
    Cuda,
}

/// How the threads wait.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// How long an idle thread watches for work before it sleeps.
    pub spin_microseconds: u64,
    /// Whether each thread stays on one core.
    pub pin: bool,
}

/// How memory is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Whether packed weights ask for 2 MiB pages.
    pub huge_pages: bool,
}

/// The key and value cache.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    pub dtype: CacheDtype,
    pub layout: CacheLayout,
    /// Positions a slot holds.
    pub capacity: u64,
    /// Sequences alive at once.
    pub slots: u64,
}

/// Element type of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheDtype {
    F32,
    F16,
}

impl CacheDtype {
    /// Bytes of one value.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// Order inside a slot; the host needs its size only, the kernels its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheLayout {
    PositionMajor,
    HeadMajor,
}

/// One step graph: its limits and its groups in order.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Most rows.
    pub rows: u64,
    /// Most selected rows.
    pub selected: u64,
    pub groups: Vec<Group>,
}

/// Neighbouring ops computed by one kernel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub id: String,
    /// Ids of the graph's ops, in order.
    pub ops: Vec<String>,
    pub kernel: String,
    /// Layout of each weight of the group, in the order the kernel sees them.
    #[serde(default)]
    pub layouts: Vec<String>,
    /// Compiled into the object; kept for the reader.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Compiled into the object; kept for the reader.
    #[serde(default)]
    pub constants: BTreeMap<String, String>,
    /// Hash of the compiled kernel; written by the build.
    #[serde(default)]
    pub object: Option<String>,
}

/// The layout of a weight that a kernel reads in place.
pub const STORED: &str = "stored";

impl Plan {
    /// Reads `plan.json` and checks it against its graph.
    ///
    /// # Errors
    /// [`EngineError::File`] if it cannot be read, [`EngineError::Invalid`] if anything in it cannot be.
    pub fn load(path: &Path, graph: &Graph) -> Result<Self, EngineError> {
        Self::from_text(&path.display().to_string(), &read_text(path)?, graph)
    }

    /// Parses the text of a `plan.json` and checks it against its graph; `path` is for messages.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] naming the first field that cannot be.
    pub fn from_text(path: &str, text: &str, graph: &Graph) -> Result<Self, EngineError> {
        let mut plan: Self = parse(path, text, "plan")?;
        plan.sha256 = hexadecimal(&Sha256::digest(text.as_bytes()));
        crate::plan_check::check(path, &plan, graph)?;
        Ok(plan)
    }

    /// The longest sequence: what the model was made for, or what a slot holds.
    pub fn context(&self, graph: &Graph) -> usize {
        let steps = &self.steps;
        let most = match steps.get(&StepKind::Encode) {
            Some(step) => step.rows,
            None => self.cache.capacity,
        };
        graph.dimensions.context.min(most) as usize
    }
}

impl Group {
    /// The group's ops; ids that the graph lacks are left out (a checked plan has none).
    pub fn graph_ops<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = &'a Op> {
        self.ops.iter().filter_map(|id| graph.ops.iter().find(|op| &op.id == id))
    }
}
