//! `evaluate`: sequences of token ids in, logits of every position or embeddings out.

use super::EngineArguments;
use super::tensor_file::TensorFile;
use anyhow::Context;
use enginewright_core::executor::{Batch, Engine, StepKind};
use enginewright_core::graph::ModelKind;
use serde::Deserialize;
use std::path::PathBuf;

/// Arguments of `evaluate`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub engine: EngineArguments,
    /// JSON: {"sequences": [[id, …], …]}, for decoders optionally "from": [first position wanted, …]
    #[arg(long)]
    pub input: PathBuf,
    /// Safetensors file to write: tensors 0, 1, … of float32
    #[arg(long)]
    pub output: PathBuf,
    /// Decoders: run every token through this step
    #[arg(long, value_enum, default_value_t = Through::Prefill)]
    pub step: Through,
    /// Decoders: rows of a prefill step; more than the plan selects makes it run again for each part of them
    /// [default: what the plan selects]
    #[arg(long)]
    pub chunk: Option<usize>,
    /// Encoders: as many sequences in one step as fit, instead of one
    #[arg(long)]
    pub together: bool,
}

/// Which step of a decoder computes the logits.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Through {
    Prefill,
    Decode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    sequences: Vec<Vec<u32>>,
    /// First position of each sequence whose logits are wanted; all when absent.
    from: Option<Vec<usize>>,
}

/// Runs all sequences and writes the outputs.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.input.display();
    let text = std::fs::read_to_string(&arguments.input).with_context(|| format!("cannot read {path}"))?;
    let input: Input = serde_json::from_str(&text)
        .with_context(|| format!("{path}: expected {{\"sequences\": [[id, …], …]}} with ids of 0 or more"))?;
    let mut executor = arguments.engine.load()?;
    match executor.graph().kind {
        ModelKind::Decoder => decode_all(arguments, &input, &mut *executor),
        ModelKind::Encoder => encode_all(arguments, &input, &mut *executor),
    }
}

fn decode_all(arguments: &Arguments, input: &Input, executor: &mut dyn Engine) -> anyhow::Result<()> {
    let limits = executor.limits();
    let from = match &input.from {
        Some(from) => from.clone(),
        None => vec![0; input.sequences.len()],
    };
    anyhow::ensure!(
        from.len() == input.sequences.len(),
        "`from` has {} entries for {} sequences",
        from.len(),
        input.sequences.len()
    );
    let mut shapes = Vec::new();
    for (index, (ids, &first)) in input.sequences.iter().zip(&from).enumerate() {
        let (length, context) = (ids.len(), limits.context);
        anyhow::ensure!(
            first < length && length <= context,
            "sequence {index} has {length} tokens, wanted from {first}; expected at most {context}, one of them wanted"
        );
        shapes.push(vec![length - first, limits.output_width]);
    }
    let chunk = arguments.chunk.unwrap_or(limits.prefill_selected);
    anyhow::ensure!(chunk > 0, "--chunk must be positive");
    anyhow::ensure!(
        chunk <= limits.prefill_selected || !executor.graph().is_recurrent(),
        "--chunk {chunk} is above {}, the rows that a prefill step selects; expected no more, since this model carries \
         a state and its rows run once\nhint: leave --chunk out",
        limits.prefill_selected
    );
    let mut file = TensorFile::create(&arguments.output, &shapes)?;
    for (index, (ids, &first)) in input.sequences.iter().zip(&from).enumerate() {
        let mut walk = Walk { executor, file: &mut file, ids, first, index };
        match arguments.step {
            Through::Prefill => walk.prefill(chunk.min(limits.prefill_rows))?,
            Through::Decode => walk.decode()?,
        }
    }
    file.finish()
}

/// One sequence on its way through a decoder, in slot 0.
struct Walk<'a> {
    executor: &'a mut dyn Engine,
    file: &'a mut TensorFile,
    ids: &'a [u32],
    first: usize,
    index: usize,
}

impl Walk<'_> {
    /// Rows before the first wanted one run in the plan's largest steps, as a server runs them.
    fn prefill(&mut self, chunk: usize) -> anyhow::Result<()> {
        let limits = self.executor.limits();
        let mut position = 0;
        while position < self.ids.len() {
            let (size, wanted) = match self.first.saturating_sub(position) {
                0 => (chunk.min(self.ids.len() - position), true),
                unwanted => (unwanted.min(limits.prefill_rows), false),
            };
            if wanted {
                let rows: Vec<u32> = (0..size as u32).collect();
                for selected in rows.chunks(limits.prefill_selected) {
                    self.step(StepKind::Prefill, position..position + size, selected)?;
                }
            } else {
                self.step(StepKind::Prefill, position..position + size, &[])?;
            }
            position += size;
        }
        Ok(())
    }

    fn decode(&mut self) -> anyhow::Result<()> {
        for position in 0..self.ids.len() {
            let selected: &[u32] = if position < self.first { &[] } else { &[0] };
            self.step(StepKind::Decode, position..position + 1, selected)?;
        }
        Ok(())
    }

    fn step(&mut self, kind: StepKind, rows: std::ops::Range<usize>, selected: &[u32]) -> anyhow::Result<()> {
        let positions: Vec<u32> = rows.clone().map(|position| position as u32).collect();
        let output = self.executor.step(&Batch {
            kind,
            token_ids: &self.ids[rows.clone()],
            positions: &positions,
            slots: &vec![0; rows.len()],
            starts: &[0, rows.len() as u32],
            selected_rows: selected,
        })?;
        let width = output.len().checked_div(selected.len()).unwrap_or(1).max(1);
        for (row, values) in selected.iter().zip(output.chunks(width)) {
            require_finite(values, self.index, Some(rows.start + *row as usize))?;
        }
        self.file.write(output)
    }
}

fn encode_all(arguments: &Arguments, input: &Input, executor: &mut dyn Engine) -> anyhow::Result<()> {
    anyhow::ensure!(input.from.is_none(), "`from` is for decoders; this engine is an encoder");
    let limits = executor.limits();
    for (index, ids) in input.sequences.iter().enumerate() {
        let (length, context) = (ids.len(), limits.context);
        anyhow::ensure!(
            (1..=context).contains(&length),
            "sequence {index} has {length} tokens; expected 1 to {context}"
        );
    }
    let shapes = vec![vec![limits.output_width]; input.sequences.len()];
    let mut file = TensorFile::create(&arguments.output, &shapes)?;
    let mut next = 0;
    while next < input.sequences.len() {
        let mut ids = input.sequences[next].clone();
        let mut starts = vec![0, ids.len() as u32];
        let mut end = next + 1;
        while arguments.together
            && end < input.sequences.len()
            && ids.len() + input.sequences[end].len() <= limits.prefill_rows
        {
            ids.extend(&input.sequences[end]);
            starts.push(ids.len() as u32);
            end += 1;
        }
        let positions: Vec<u32> = starts.windows(2).flat_map(|ends| 0..ends[1] - ends[0]).collect();
        let output = executor.step(&Batch {
            kind: StepKind::Encode,
            token_ids: &ids,
            positions: &positions,
            slots: &[],
            starts: &starts,
            selected_rows: &[],
        })?;
        for (offset, values) in output.chunks(limits.output_width).enumerate() {
            require_finite(values, next + offset, None)?;
        }
        file.write(output)?;
        next = end;
    }
    file.finish()
}

/// A failure is a value, never a number.
fn require_finite(values: &[f32], sequence: usize, position: Option<usize>) -> anyhow::Result<()> {
    let Some(column) = values.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let place = position.map_or(String::new(), |position| format!(", position {position}"));
    anyhow::bail!(
        "output {column} of sequence {sequence}{place} is {}; expected finite numbers\n\
         hint: the weights hold NaN or infinity, or a kernel is wrong",
        values[column]
    )
}
