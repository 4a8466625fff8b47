//! The rows of one step, laid end to end.

use crate::executor::{Batch, StepKind};

/// The arrays of one step, reused.
#[derive(Default)]
pub struct Rows {
    pub token_ids: Vec<u32>,
    pub positions: Vec<u32>,
    pub slots: Vec<u32>,
    pub starts: Vec<u32>,
    pub selected: Vec<u32>,
    /// For each segment: index of its session, and its rows that are selected.
    pub parts: Vec<(usize, usize)>,
}

impl Rows {
    /// Starts a new step.
    pub fn clear(&mut self) {
        for list in [&mut self.token_ids, &mut self.positions, &mut self.slots, &mut self.selected] {
            list.clear();
        }
        self.starts.clear();
        self.starts.push(0);
        self.parts.clear();
    }

    /// Adds a row.
    pub fn push(&mut self, token: u32, position: usize, slot: u32) {
        self.token_ids.push(token);
        self.positions.push(position as u32);
        self.slots.push(slot);
    }

    /// Ends the segment of a session (or of a job that embeds).
    pub fn close(&mut self, session: usize, selected: usize) {
        self.starts.push(self.token_ids.len() as u32);
        self.parts.push((session, selected));
    }

    /// As the executor takes it.
    pub fn batch(&self, kind: StepKind) -> Batch<'_> {
        Batch {
            kind,
            token_ids: &self.token_ids,
            positions: &self.positions,
            slots: &self.slots,
            starts: &self.starts,
            selected_rows: &self.selected,
        }
    }
}
