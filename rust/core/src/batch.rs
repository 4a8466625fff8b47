//! Whether a batch may run: kernels index with what it says and look at nothing twice.

use crate::error::EngineError;
use crate::executor::{Batch, StepKind};
use crate::graph::Graph;
use crate::plan::Plan;

/// The limits of one step.
#[derive(Debug, Clone, Copy)]
pub struct StepLimits {
    pub rows: usize,
    pub selected: usize,
    pub slots: usize,
    pub context: usize,
    pub vocabulary: usize,
    /// Whether slots carry states: rows of a sequence run once, in order.
    pub is_recurrent: bool,
}

impl StepLimits {
    /// The limits that a plan sets for one of its steps.
    pub fn of(kind: StepKind, graph: &Graph, plan: &Plan) -> Self {
        let step = &plan.steps[&kind];
        Self {
            rows: step.rows as usize,
            selected: step.selected as usize,
            slots: plan.cache.slots as usize,
            context: plan.context(graph),
            vocabulary: graph.dimensions.vocabulary as usize,
            is_recurrent: graph.is_recurrent(),
        }
    }
}

/// Remembers which slots a batch names, without clearing between batches, and how far each slot is.
#[derive(Debug)]
pub struct SlotsSeen {
    last: Vec<u64>,
    batch: u64,
    /// Positions that a slot holds.
    held: Vec<u32>,
}

impl SlotsSeen {
    pub fn new(slots: usize) -> Self {
        Self { last: vec![0; slots], batch: 0, held: vec![0; slots] }
    }

    /// Takes `slot` for one that holds `positions`, though nothing of them was run: for timing only.
    pub fn pretend_held(&mut self, slot: usize, positions: u32) {
        if let Some(held) = self.held.get_mut(slot) {
            *held = positions;
        }
    }

    /// Whether `slot` is named for the first time in this batch.
    fn is_first(&mut self, slot: usize) -> bool {
        std::mem::replace(&mut self.last[slot], self.batch) != self.batch
    }
}

/// Checks every number of a batch. Allocates nothing unless it refuses.
///
/// # Errors
/// [`EngineError::Batch`] naming the first number that cannot be.
pub fn check(batch: &Batch<'_>, limits: &StepLimits, seen: &mut SlotsSeen) -> Result<(), EngineError> {
    let rows = batch.token_ids.len();
    if rows == 0 || rows > limits.rows {
        return refuse(format!("{rows} rows; the {:?} step takes 1 to {}", batch.kind, limits.rows));
    }
    let has_cache = batch.kind != StepKind::Encode;
    if batch.positions.len() != rows || (has_cache && batch.slots.len() != rows) {
        let (positions, slots) = (batch.positions.len(), batch.slots.len());
        return refuse(format!(
            "{rows} token ids, {positions} positions, {slots} slots; expected as many of each"
        ));
    }
    if let Some(row) = batch.token_ids.iter().position(|&id| id as usize >= limits.vocabulary) {
        let (id, vocabulary) = (batch.token_ids[row], limits.vocabulary);
        return refuse(format!("row {row} has token id {id}; the vocabulary ends before {vocabulary}"));
    }
    if let Some(row) = batch.positions.iter().position(|&position| position as usize >= limits.context) {
        let (position, context) = (batch.positions[row], limits.context);
        return refuse(format!("row {row} has position {position}; sequences end before {context}"));
    }
    check_starts(batch.starts, rows)?;
    seen.batch += 1;
    for (index, ends) in batch.starts.windows(2).enumerate() {
        check_segment(
            batch,
            index,
            ends[0] as usize..ends[1] as usize,
            has_cache.then_some((limits, &mut *seen)),
        )?;
    }
    if !has_cache {
        return Ok(());
    }
    if batch.selected_rows.len() > limits.selected {
        let (selected, most) = (batch.selected_rows.len(), limits.selected);
        return refuse(format!("{selected} selected rows; the {:?} step takes at most {most}", batch.kind));
    }
    if let Some(row) = batch.selected_rows.iter().find(|&&row| row as usize >= rows) {
        return refuse(format!("selected row {row} of {rows} rows"));
    }
    // Only now: a batch that is refused leaves every slot where it was.
    for end in &batch.starts[1..] {
        let row = *end as usize - 1;
        seen.held[batch.slots[row] as usize] = batch.positions[row] + 1;
    }
    Ok(())
}

fn refuse(reason: String) -> Result<(), EngineError> {
    Err(EngineError::Batch { reason })
}

/// Segments start at 0, are not empty and end at the last row.
fn check_starts(starts: &[u32], rows: usize) -> Result<(), EngineError> {
    let is_whole = starts.len() >= 2
        && starts[0] == 0
        && starts[starts.len() - 1] as usize == rows
        && starts.windows(2).all(|ends| ends[0] < ends[1]);
    if is_whole {
        return Ok(());
    }
    refuse(format!("segment starts {starts:?}; expected a rising list from 0 to {rows}"))
}

/// Positions rise by one; the segment keeps to one slot, which no other segment uses.
fn check_segment(
    batch: &Batch<'_>,
    index: usize,
    rows: std::ops::Range<usize>,
    cache: Option<(&StepLimits, &mut SlotsSeen)>,
) -> Result<(), EngineError> {
    let positions = &batch.positions[rows.clone()];
    if positions.windows(2).any(|pair| pair[1] != pair[0] + 1) {
        return refuse(format!("positions of segment {index} do not rise by one"));
    }
    let Some((limits, seen)) = cache else {
        if positions[0] != 0 {
            return refuse(format!(
                "segment {index} starts at position {}; encoders see whole sequences",
                positions[0]
            ));
        }
        return Ok(());
    };
    let slots = &batch.slots[rows];
    let slot = slots[0] as usize;
    if slots.iter().any(|&other| other as usize != slot) {
        return refuse(format!("segment {index} names more than one slot"));
    }
    if slot >= limits.slots {
        return refuse(format!("segment {index} names slot {slot}; the engine has {}", limits.slots));
    }
    if !seen.is_first(slot) {
        return refuse(format!("slot {slot} is named by more than one segment"));
    }
    let held = seen.held[slot];
    if limits.is_recurrent && positions[0] != 0 && positions[0] != held {
        return refuse(format!(
            "segment {index} starts at position {} of slot {slot}, which holds {held}; this model carries a state \
             that cannot be rewound: go on at {held}, or start again at 0",
            positions[0]
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StepLimits =
        StepLimits { rows: 8, selected: 2, slots: 3, context: 16, vocabulary: 100, is_recurrent: false };

    /// Two sequences of three and two rows, in slots 2 and 0.
    struct Rows {
        token_ids: Vec<u32>,
        positions: Vec<u32>,
        slots: Vec<u32>,
        starts: Vec<u32>,
        selected: Vec<u32>,
    }

    fn good() -> Rows {
        Rows {
            token_ids: vec![1, 2, 3, 4, 99],
            positions: vec![0, 1, 2, 14, 15],
            slots: vec![2, 2, 2, 0, 0],
            starts: vec![0, 3, 5],
            selected: vec![4, 2],
        }
    }

    fn verdict(kind: StepKind, change: impl Fn(&mut Rows)) -> Result<(), String> {
        let mut rows = good();
        change(&mut rows);
        let batch = Batch {
            kind,
            token_ids: &rows.token_ids,
            positions: &rows.positions,
            slots: &rows.slots,
            starts: &rows.starts,
            selected_rows: &rows.selected,
        };
        check(&batch, &LIMITS, &mut SlotsSeen::new(3)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_batch_within_the_limits_runs_again_and_again() {
        let rows = good();
        let mut seen = SlotsSeen::new(3);
        let batch = Batch {
            kind: StepKind::Prefill,
            token_ids: &rows.token_ids,
            positions: &rows.positions,
            slots: &rows.slots,
            starts: &rows.starts,
            selected_rows: &rows.selected,
        };
        for _ in 0..3 {
            check(&batch, &LIMITS, &mut seen).unwrap();
        }
        verdict(StepKind::Prefill, |rows| rows.selected.clear()).unwrap();
    }

    #[test]
    fn whatever_a_kernel_would_index_with_is_refused_beyond_its_limit() {
        type Change = fn(&mut Rows);
        let cases: [(&str, Change); 14] = [
            ("token id 100", |rows| rows.token_ids[1] = 100),
            ("position 16", |rows| rows.positions = vec![0, 1, 2, 15, 16]),
            ("do not rise", |rows| rows.positions[1] = 5),
            ("names slot 3", |rows| rows.slots = vec![3, 3, 3, 0, 0]),
            ("more than one slot", |rows| rows.slots[1] = 1),
            ("more than one segment", |rows| rows.slots = vec![2; 5]),
            ("selected row 5", |rows| rows.selected[0] = 5),
            ("3 selected rows", |rows| rows.selected = vec![0, 1, 2]),
            ("segment starts", |rows| rows.starts = vec![0, 3]),
            ("segment starts", |rows| rows.starts = vec![0, 5, 3, 5]),
            ("segment starts", |rows| rows.starts = vec![]),
            ("segment starts", |rows| rows.starts = vec![1, 5]),
            ("4 positions", |rows| rows.positions.truncate(4)),
            ("9 rows", |rows| rows.token_ids = vec![1; 9]),
        ];
        for (expected, change) in cases {
            let error = verdict(StepKind::Prefill, change).unwrap_err();
            assert!(error.contains(expected), "{error}, expected {expected}");
        }
        assert!(verdict(StepKind::Decode, |rows| rows.token_ids.clear()).unwrap_err().contains("0 rows"));
    }

    #[test]
    fn a_slot_with_a_state_goes_on_or_starts_again_but_is_never_rewound() {
        let limits = StepLimits { is_recurrent: true, ..LIMITS };
        let mut seen = SlotsSeen::new(3);
        let mut run = |from: u32, selected: &[u32]| {
            let batch = Batch {
                kind: StepKind::Prefill,
                token_ids: &[1, 2],
                positions: &[from, from + 1],
                slots: &[1, 1],
                starts: &[0, 2],
                selected_rows: selected,
            };
            check(&batch, &limits, &mut seen).map_err(|error| error.to_string())
        };
        assert!(run(2, &[]).unwrap_err().contains("which holds 0"));
        run(0, &[]).unwrap();
        run(2, &[]).unwrap();
        assert!(run(2, &[]).unwrap_err().contains("go on at 4, or start again at 0"));
        assert!(run(6, &[]).unwrap_err().contains("cannot be rewound"));
        assert!(run(4, &[7]).unwrap_err().contains("selected row 7"));
        run(4, &[]).unwrap();
        run(0, &[]).unwrap();
        run(2, &[]).unwrap();
    }

    #[test]
    fn encoders_need_neither_slots_nor_selected_rows_but_whole_sequences() {
        let whole = |rows: &mut Rows| {
            rows.positions = vec![0, 1, 2, 0, 1];
            rows.slots.clear();
        };
        verdict(StepKind::Encode, whole).unwrap();
        let error = verdict(StepKind::Encode, |rows| rows.slots.clear()).unwrap_err();
        assert!(error.contains("whole sequences"), "{error}");
    }
}
