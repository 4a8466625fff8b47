//! `profile`: the time of each group of one step, in the step as it really runs.

use super::EngineArguments;
use enginewright_core::executor::{Batch, Engine, StepKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Steps before the first that counts: pages are touched, caches and clocks warm.
const WARM_UP: usize = 2;

/// Arguments of `profile`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub engine: EngineArguments,
    /// Which step
    #[arg(long, value_enum)]
    pub step: StepName,
    /// Rows: sequences of a decode step, tokens of a prefill or encode step
    #[arg(long, default_value_t = 1)]
    pub rows: usize,
    /// Decoders: tokens of each sequence that the cache holds already
    #[arg(long, default_value_t = 64)]
    pub context: usize,
    /// Encoders: tokens of each sequence [default: all rows are one sequence]
    #[arg(long)]
    pub segment: Option<usize>,
    /// Time whole steps only, as they are served: on a GPU, one captured graph a step
    #[arg(long)]
    pub whole: bool,
    /// Steps that count
    #[arg(long, default_value_t = 20)]
    pub repeats: usize,
}

/// A step of the plan.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum StepName {
    Prefill,
    Decode,
    Encode,
}

/// The rows of the profiled step.
struct Rows {
    kind: StepKind,
    token_ids: Vec<u32>,
    positions: Vec<u32>,
    slots: Vec<u32>,
    starts: Vec<u32>,
    selected: Vec<u32>,
}

impl Rows {
    fn new(arguments: &Arguments, executor: &dyn Engine) -> anyhow::Result<Self> {
        let rows = u32::try_from(arguments.rows)?;
        let context = u32::try_from(arguments.context)?;
        let segment = match arguments.segment {
            Some(segment) => u32::try_from(segment)?.clamp(1, rows.max(1)),
            None => rows.max(1),
        };
        let vocabulary = executor.graph().dimensions.vocabulary as u32;
        // Spread over the vocabulary, so that the embedding's rows are not all in cache.
        let token_ids = (0..rows).map(|row| row.wrapping_mul(2_654_435_761) % vocabulary).collect();
        let last = rows.saturating_sub(1);
        Ok(match arguments.step {
            // Values in the cache do not matter to time; it starts as zeros, which are ordinary numbers.
            StepName::Decode => Self {
                kind: StepKind::Decode,
                token_ids,
                positions: vec![context; rows as usize],
                slots: (0..rows).collect(),
                starts: (0..=rows).collect(),
                selected: (0..rows).collect(),
            },
            StepName::Prefill => Self {
                kind: StepKind::Prefill,
                token_ids,
                positions: (context..context.saturating_add(rows)).collect(),
                slots: vec![0; rows as usize],
                starts: vec![0, rows],
                selected: vec![last],
            },
            StepName::Encode => Self {
                kind: StepKind::Encode,
                token_ids,
                positions: (0..rows).map(|row| row % segment).collect(),
                slots: Vec::new(),
                starts: (0..rows).step_by(segment as usize).chain([rows]).collect(),
                selected: Vec::new(),
            },
        })
    }

    /// Lets the same rows run again where a state would forbid it: values do not matter to time.
    fn rewind(&self, executor: &mut dyn Engine) {
        for start in &self.starts[..self.starts.len() - 1] {
            if let Some(slot) = self.slots.get(*start as usize) {
                executor.pretend_held(*slot as usize, self.positions[*start as usize]);
            }
        }
    }

    fn batch(&self) -> Batch<'_> {
        Batch {
            kind: self.kind,
            token_ids: &self.token_ids,
            positions: &self.positions,
            slots: &self.slots,
            starts: &self.starts,
            selected_rows: &self.selected,
        }
    }
}

/// Profiles and prints one JSON object.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    anyhow::ensure!(arguments.repeats > 0, "--repeats must be positive");
    let mut executor = arguments.engine.load()?;
    let rows = Rows::new(arguments, &*executor)?;
    let batch = rows.batch();
    let groups = executor.plan().steps.get(&rows.kind).map_or(0, |step| step.groups.len());
    let clock: Vec<AtomicU64> = (0..groups).map(|_| AtomicU64::new(0)).collect();
    for _ in 0..WARM_UP {
        rows.rewind(&mut *executor);
        executor.step(&batch)?;
    }
    let mut by_group: Vec<Vec<u64>> = vec![Vec::with_capacity(arguments.repeats); groups];
    let mut whole = Vec::with_capacity(arguments.repeats);
    for _ in 0..arguments.repeats {
        rows.rewind(&mut *executor);
        let begin = Instant::now();
        if arguments.whole {
            executor.step(&batch)?;
        } else {
            executor.step_timed(&batch, &clock)?;
        }
        whole.push(begin.elapsed().as_nanos() as u64);
        for (times, counter) in by_group.iter_mut().zip(&clock) {
            times.push(counter.swap(0, Ordering::Relaxed));
        }
    }
    let described = executor.plan().steps.get(&rows.kind).map_or(&[][..], |step| &step.groups);
    let listed: Vec<serde_json::Value> = described
        .iter()
        .zip(&by_group)
        .map(|(group, times)| {
            serde_json::json!({
                "id": group.id, "ops": group.ops, "kernel": group.kernel, "object": group.object,
                "nanoseconds": times,
            })
        })
        .collect();
    println!(
        "{}",
        serde_json::json!({"groups": listed, "step_nanoseconds": whole, "threads": executor.threads()})
    );
    Ok(())
}
